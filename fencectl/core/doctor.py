"""What `doctor` finds out, as data: one line each, with the next step where one is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from fencectl.core.errors import ExitCode
from fencectl.core.rights import Access


class State(StrEnum):
    """How a check ended. A warning is a thing to know; a failure keeps a command from working."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Check(msgspec.Struct, frozen=True):
    """
    One check.

    `name`: of what it is about, a word. `what`: a clause, hostile text in it until escaped. `hint`: the next step.
    """

    name: str
    state: State
    what: str
    hint: str | None = None


class Value(msgspec.Struct, frozen=True):
    """An effective setting and where it comes from: `fencectl.yaml:6`, `--context`, a variable, `default`."""

    key: str
    value: str
    origin: str


def code_of(checks: Iterable[Check]) -> ExitCode:
    """22 where a check failed; a warning alone is a success."""
    failed = any(check.state is State.FAILURE for check in checks)
    return ExitCode.DOCTOR_FAILED if failed else ExitCode.OK


def judge_access(
    name: str, accesses: Sequence[Access], may: Mapping[Access, bool | str], *, hint: str, reads: bool
) -> Check:
    """
    Judge the permissions that a command needs beyond reading, or those of reading itself (`reads`).

    Whoever has none of those that change something may only look, which is a thing to know and no failure; one who
    has some of them would be stopped half-way.
    """
    unknown = [access for access in accesses if isinstance(may[access], str)]
    if unknown:
        why = may[unknown[0]]
        return Check(name, State.FAILURE, f"{len(unknown)} permissions cannot be asked for: {why}")
    missing = [access for access in accesses if may[access] is not True]
    if not missing:
        return Check(name, State.OK, f"all {len(accesses)} permissions")
    if not reads and len(missing) == len(accesses):
        return Check(name, State.WARNING, f"not allowed: none of its {len(accesses)} permissions", hint)
    needed = [access for access in missing if not access.seldom]
    titles = ", ".join(access.title for access in (needed or missing)[:4])
    more = f" and {len(needed or missing) - 4} more" if len(needed or missing) > 4 else ""
    is_are = "is" if len(missing) == 1 else "are"
    what = f"{len(missing)} of {len(accesses)} permissions {is_are} missing: {titles}{more}"
    return Check(name, State.FAILURE if needed else State.WARNING, what, hint)
