"""
The Lease: when it is held, what frees it, and when a free one is not well.

Aspects: the operations · times and duration as they are · free, malformed, blank · leases of others.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fencectl.core.found import Reading
from fencectl.core.refs import Seen
from tests.core.test_bridge_states import (
    LONG_AGO,
    MISSING,
    RUN,
    RefusedError,
    applied,
    lease,
    only,
    only_foreign,
    patch_of,
    read,
    why,
)


def test_held_lease_is_freed_under_uid_holder_and_renew_time() -> None:
    """The very operations: three guards, holder empty, duration 1."""
    found = only(lease())
    assert patch_of(found).operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-ghcr-auth-refresh"},
        {"op": "test", "path": "/spec/holderIdentity", "value": RUN},
        {"op": "test", "path": "/spec/renewTime", "value": LONG_AGO},
        {"op": "replace", "path": "/spec/holderIdentity", "value": ""},
        {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 1},
    ]
    assert found.release is not None
    assert (found.release.title, found.now, found.after, found.rank) == ("free it", "taken", "free", 0)
    assert found.manager == "bridge"
    assert found.since == datetime(2026, 11, 30, 1, 32, 5, tzinfo=UTC)
    assert found.heartbeat is not None
    assert (found.heartbeat.renewed_text, found.heartbeat.duration_s) == (LONG_AGO, 120)
    assert found.heartbeat.renewed_at == datetime(2026, 11, 30, 1, 47, 2, 118204, tzinfo=UTC)
    assert found.notes == ()


@pytest.mark.parametrize("renewed", [MISSING, None])
def test_lease_without_renew_time_is_unknown_and_guards_its_absence(renewed: Any) -> None:
    """No renewTime is no proof that the holder stopped: a Lease written a second ago may have none."""
    found = only(lease(renewed=renewed))
    assert found.heartbeat is not None
    assert (found.heartbeat.renewed_text, found.heartbeat.renewed_at) == (None, None)
    assert {"op": "test", "path": "/spec/renewTime", "value": None} in patch_of(found).operations
    assert "whether its holder lives is unknown" in found.notes[0]
    assert "refuses it even when it is free" in found.notes[1]
    assert applied(patch_of(found), found.seen.raw)["spec"]["holderIdentity"] == ""


def test_lease_without_acquire_time_says_that_the_next_run_refuses_it() -> None:
    """Freed, it would be a Lease that nobody can take: that is said beforehand."""
    found = only(lease(acquired=MISSING))
    assert found.since is None
    assert found.notes == ("without both of its times that tool's next run refuses it even when it is free",)


@pytest.mark.parametrize("duration", [MISSING, None])
def test_lease_without_duration_counts_as_zero_seconds(duration: Any) -> None:
    """An absent duration is 0, so no age is young; the patch adds what is not there."""
    found = only(lease(duration=duration))
    assert found.heartbeat is not None
    assert found.heartbeat.duration_s == 0
    assert "it has no duration, which counts as 0" in found.notes
    after = applied(patch_of(found), found.seen.raw)
    assert after["spec"]["leaseDurationSeconds"] == 1


@pytest.mark.parametrize("duration", [True, "120", 1.5, []])
def test_duration_of_another_type_is_unknown(duration: Any) -> None:
    """A duration that is no number of seconds is none, and is said."""
    found = only(lease(duration=duration))
    assert found.heartbeat is not None
    assert found.heartbeat.duration_s is None
    assert "its duration is not a number of seconds" in found.notes


@pytest.mark.parametrize("renewed", ["yesterday", 5, ["x"], ""])
def test_renew_time_that_is_no_time_is_unknown_and_guarded_as_seen(renewed: Any) -> None:
    """An unparseable time neither drops the Lease nor proves anything."""
    found = only(lease(renewed=renewed))
    assert found.heartbeat is not None
    assert found.heartbeat.renewed_at is None
    assert found.heartbeat.renewed_text == (renewed if isinstance(renewed, str) else "not a text")
    assert {"op": "test", "path": "/spec/renewTime", "value": renewed} in patch_of(found).operations


def test_deleted_lease_is_said_to_be_going() -> None:
    """Its deletion has begun; what it fences is still fenced."""
    assert "it is being deleted" in only(lease(deletionTimestamp="2026-11-30T02:00:00Z")).notes


@pytest.mark.parametrize(
    ("field", "value"), [("holderIdentity", "somebody-else"), ("renewTime", "2026-11-30T02:47:30.000000Z")]
)
def test_changed_lease_refuses_the_printed_release(field: str, value: str) -> None:
    """A holder that shows a sign of life, or another holder, keeps the Lease."""
    found = only(lease())
    changed = {**found.seen.raw, "spec": {**found.seen.raw["spec"], field: value}}
    with pytest.raises(RefusedError):
        applied(patch_of(found), changed)


def test_free_lease_is_nothing_to_report() -> None:
    """An empty holder with a duration and both times is what that tool and this one leave behind."""
    assert read(lease("", duration=1)) == Reading((), ())


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (lease(MISSING), "its holder is absent"),
        (lease(None), "its holder is absent"),
        (lease("", duration=MISSING), "it has no duration"),
        (lease("", renewed=MISSING), "it has no `renewTime` that is a time"),
        (lease("", acquired=MISSING), "it has no `acquireTime` that is a time"),
        (lease("", renewed="soon"), "it has no `renewTime` that is a time"),
    ],
)
def test_free_lease_that_the_next_run_refuses_is_shown_as_malformed(state: Seen, said: str) -> None:
    """Nothing carries a mark, and all is not well: never shown as nothing."""
    foreign = only_foreign(state)
    assert foreign.now == "malformed"
    (note,) = foreign.notes
    assert said in note
    assert "that tool's next run refuses such a Lease" in note


@pytest.mark.parametrize("spec", [MISSING, None, {}, [], "x", 3])
def test_case_28_lease_without_a_readable_spec_is_malformed(spec: Any) -> None:
    """No spec, an empty one or no map at all: no traceback, and not nothing."""
    state = lease()
    raw = {key: value for key, value in state.raw.items() if key != "spec"}
    if spec is not MISSING:
        raw["spec"] = spec
    foreign = only_foreign(Seen(state.ref, raw))
    assert foreign.now == "malformed"
    assert "its holder is absent, it has no duration" in foreign.notes[0]


def test_lease_without_uid_is_refused() -> None:
    """A patch that any object of that name would accept is no guarded patch."""
    assert "its uid could not be read" in why(only(lease(uid="")))


def test_lease_of_the_other_profile_is_shown_as_not_ours() -> None:
    """Held, it is named with its holder; free, it is nothing."""
    foreign = only_foreign(lease("somebody", name="fencectl-deploy"))
    assert (foreign.now, foreign.manager) == ("taken", "bridge")
    assert foreign.notes == ("held by somebody", "a lease of the profile `fencectl`")
    assert read(lease("", name="fencectl-deploy")) == Reading((), ())
    assert read(lease(MISSING, name="fencectl-deploy")) == Reading((), ())


def test_lease_of_anybody_else_is_shown_without_a_profile() -> None:
    """The label tells a lease of fencectl under another name; without it nobody knows whose it is."""
    labelled = only_foreign(lease("x", name="mine", namespace="ops", labels={"fencectl.dev/fence": "deploy"}))
    assert labelled.notes[1:] == ("a lease of the profile `fencectl`",)
    assert only_foreign(lease(5, name="mine", namespace="ops")).notes == ("its holder is not text",)
    # Only namespace and name together make it that tool's Lease.
    assert only_foreign(lease(RUN, namespace="ops")).notes == (f"held by {RUN}",)
