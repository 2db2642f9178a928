"""
Several targets of one deploy: which come next, what is said of all of them, which exit code decides.

Aspects: goes on or stops · the worst code · a signal between two · every target is in the sentence · one cluster
named twice.
"""

from __future__ import annotations

from itertools import product

import pytest

from fencectl.core.errors import ExitCode, NotReadableError, UsageError, worst
from fencectl.core.several import (
    Part,
    Place,
    code_of,
    goes_on,
    refuse_same_names,
    refuse_same_places,
    sentence_of,
)

TERM = ExitCode.TERMINATED
LEASE = ("flux-system", "fencectl-deploy")
LEFT = Part("c")
DEPLOYED = Part("a", ExitCode.OK, begun=True)


def ended(code: ExitCode, label: str = "b") -> Part:
    return Part(label, code, begun=True)


@pytest.mark.parametrize("code", [code for code in ExitCode if code is not ExitCode.OK], ids=lambda one: one.name)
def test_first_target_that_has_not_succeeded_is_the_last_one(code: ExitCode) -> None:
    """Whatever it ended with: a deploy that is not known to be good goes nowhere else, and is no success."""
    assert goes_on([], None)
    assert goes_on([DEPLOYED], None)
    assert not goes_on([DEPLOYED, ended(code)], None)
    assert not goes_on([ended(code), DEPLOYED], None)
    assert code_of([DEPLOYED, ended(code), LEFT], None) is code
    said = sentence_of([DEPLOYED, ended(code), LEFT], None)
    assert said.startswith(f"deployed to 1 of 3 targets: a; b ended with {code.value}")
    assert said.endswith("; not started: c")
    assert ("STILL HELD" in said) == (code is ExitCode.STILL_FENCED)


def test_signal_between_two_targets_starts_no_other_and_is_told_by_the_code() -> None:
    """What was deployed is deployed; the rest was not, and that is no 0."""
    assert not goes_on([DEPLOYED], TERM)
    assert code_of([DEPLOYED, LEFT], TERM) is TERM
    assert sentence_of([DEPLOYED, LEFT], TERM) == "deployed to 1 of 2 targets: a; not started: c (interrupted)"
    assert code_of([DEPLOYED, ended(ExitCode.FAILED_NEW_STATE_LIVE), LEFT], TERM) is ExitCode.FAILED_NEW_STATE_LIVE


def test_signal_that_kept_nothing_from_being_started_changes_no_code() -> None:
    """It came when the last target was done: as with one target."""
    assert code_of([DEPLOYED, ended(ExitCode.OK)], TERM) is ExitCode.OK


def test_all_deployed_names_all() -> None:
    """In the order in which they were named."""
    parts = [DEPLOYED, ended(ExitCode.OK)]
    assert code_of(parts, None) is ExitCode.OK
    assert sentence_of(parts, None) == "deployed to 2 targets: a, b"


def test_refusal_before_anything_began_says_that_nothing_was_changed() -> None:
    """Two refusals at once: both are named, the worse decides."""
    parts = [Part("a"), Part("b", ExitCode.HELD_LIVE), Part("c", ExitCode.HELD_PERSON_NEEDED)]
    assert code_of(parts, None) is ExitCode.HELD_PERSON_NEEDED
    assert sentence_of(parts, None) == (
        "deployed to none of 3 targets; b refused (12); c refused (19); not started: a; nothing was changed"
    )
    later = sentence_of([DEPLOYED, Part("b", ExitCode.HELD_LIVE)], None)
    assert later == "deployed to 1 of 2 targets: a; b refused (12)"


def test_every_target_is_in_the_sentence_and_no_code_hides_a_worse_one() -> None:
    """All combinations of what can become of two targets."""
    for ends in product([None, *ExitCode], repeat=2):
        parts = [Part(f"<{number}>", code, begun=True) for number, code in enumerate(ends)]
        said, code = sentence_of(parts, None), code_of(parts, None)
        assert all(said.count(part.label) == 1 for part in parts)
        assert code is worst(part.code for part in parts if part.code is not None)


def test_one_name_for_two_targets_is_refused() -> None:
    """Else no line could say which of them it is about."""
    refuse_same_names(["a", "b"])
    with pytest.raises(UsageError, match="two of the targets are `b`"):
        refuse_same_names(["b", "a", "b"])


def test_two_contexts_of_one_cluster_and_one_lease_are_refused() -> None:
    """By the uid of its kube-system, whatever the servers' addresses are."""
    with pytest.raises(UsageError, match=r"c and a lead to one lease/flux-system/fencectl-deploy on one cluster"):
        refuse_same_places([Place("c", "1", LEASE), Place("b", "2", LEASE), Place("a", "1", LEASE)])
    refuse_same_places([Place("a", "1", LEASE), Place("b", "2", LEASE)])


def test_two_leases_of_one_cluster_are_two_targets() -> None:
    """Nothing is taken twice then; that nobody can read which cluster it is does not matter."""
    refuse_same_places([Place("a", "1", LEASE), Place("b", "1", ("flux-system", "other"))])
    refuse_same_places([Place("a", None, LEASE), Place("b", None, ("flux-system", "other"))])


@pytest.mark.parametrize("uids", [(None, "1"), ("1", None), (None, None)])
def test_clusters_that_cannot_be_told_apart_are_refused_as_not_readable(
    uids: tuple[str | None, str | None],
) -> None:
    """Unknown is not different."""
    places = [Place(label, uid, LEASE) for label, uid in zip("ab", uids, strict=True)]
    with pytest.raises(NotReadableError, match="nobody can tell whether a and b are two clusters") as caught:
        refuse_same_places(places)
    assert caught.value.exit_code is ExitCode.INCOMPLETE
