"""The verbs that exist, so that no hint names one that does not. A test compares them with the command line's."""

VERBS = frozenset(
    {"fences", "release", "deploy", "recover", "rollback", "hold", "history", "doctor", "runbook", "demo"}
)
