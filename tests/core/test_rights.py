"""Roles as printed, permissions as asked, and what a doctor makes of the answers."""

from __future__ import annotations

import pytest
from msgspec import structs

from fencectl.core.doctor import State, judge_access
from fencectl.core.profiles import PROFILES, ProfileName
from fencectl.core.rights import Access, Role, accesses_for, documents_for, rules_for

PROFILE = structs.replace(PROFILES[ProfileName.FENCECTL], lease=("ops", "gate"))
KINDS = (("kustomize.toolkit.fluxcd.io", "kustomizations"), ("helm.toolkit.fluxcd.io", "helmreleases"))
WRITES = {"create", "patch", "update", "delete", "deletecollection"}


def test_each_role_has_all_of_the_one_before() -> None:
    """Whoever may recover can report; whoever may deploy can recover."""
    report, recover, deploy = (set(accesses_for(role, PROFILE, KINDS)) for role in Role)
    assert report < recover < deploy


def test_report_changes_nothing() -> None:
    """Its verbs only read."""
    assert not {access.verb for access in accesses_for(Role.REPORT, PROFILE, KINDS)} & WRITES
    assert not {verb for document in documents_for(Role.REPORT, PROFILE) for rule in document["rules"] for verb in rule["verbs"]} & WRITES  # fmt: skip


def test_what_is_enough_beside_the_lease_is_asked_for_there_only() -> None:
    """A Role in that namespace, with the record by its name wherever RBAC can say so."""
    whole, beside, other = documents_for(Role.DEPLOY, PROFILE)
    assert (whole["kind"], beside["kind"], beside["metadata"]["namespace"]) == ("ClusterRole", "Role", "ops")
    assert "configmaps" not in str(whole)
    assert (other["metadata"]["namespace"], [rule["resourceNames"] for rule in other["rules"]]) == (
        "flux-system",
        [["ghcr-auth-refresh-record"]],
    )
    named = [rule for rule in beside["rules"] if rule["resources"] == ["configmaps"] and "patch" in rule["verbs"]]
    assert named == [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["gate-record"], "verbs": ["patch"]}]  # fmt: skip


def test_configured_lease_is_read_by_name_only() -> None:
    """Where leases may not be listed, nothing asks for that."""
    by_name = structs.replace(PROFILE, by_label=False)
    leases = [rule for rule in rules_for(Role.REPORT, by_name) if rule.resources == ("leases",)]
    named = [(rule.namespace, rule.names) for rule in leases]
    assert named == [("ops", ("gate",)), ("flux-system", ("ghcr-auth-refresh",))]


def test_flux_kinds_are_asked_for_one_by_one() -> None:
    """A role that names each kind of the cluster is as good as one with a `*`."""
    resources = {
        access.resource for access in accesses_for(Role.RECOVER, PROFILE, KINDS) if access.verb == "patch"
    }
    assert {"kustomizations", "helmreleases"} < resources
    assert "*" not in resources


NODES = Access("list", "", "nodes")
EVICT = Access("create", "", "pods", "eviction")
PODS = Access("get", "", "pods", seldom=True)


@pytest.mark.parametrize(
    ("may", "reads", "state", "words"),
    [
        ({NODES: True, EVICT: True}, False, State.OK, "all 2 permissions"),
        (
            {NODES: True, EVICT: False},
            False,
            State.FAILURE,
            "1 of 2 permissions is missing: `create` pods/eviction",
        ),
        ({NODES: False, EVICT: False}, False, State.WARNING, "not allowed: none of its 2 permissions"),
        ({NODES: False, EVICT: False}, True, State.FAILURE, "2 of 2 permissions are missing"),
        ({NODES: True, PODS: False}, True, State.WARNING, "1 of 2 permissions is missing: `get` pods"),
        ({NODES: "403: no", EVICT: True}, False, State.FAILURE, "1 permissions cannot be asked for: 403: no"),
    ],
    ids=["all", "one missing", "may only look", "may not look", "seldom", "nobody says"],
)
def test_missing_right_is_named_and_one_that_nobody_tells_is_no_right(
    may: dict[Access, bool | str], reads: bool, state: State, words: str
) -> None:
    """Half of a verb's rights would stop it half-way; none of them is a user who looks."""
    check = judge_access("x", tuple(may), may, hint="ask", reads=reads)
    assert (check.state, check.what[: len(words)]) == (state, words)
    assert (check.hint is None) == (state is State.OK or "asked" in words)
