"""
Marks that no run of ours wrote: every one is reported, none is trusted, none ends the report.

Aspects: a name of a lease that is no name · text and numbers that readers disagree about · an object without uid ·
kept where nothing can be kept · a huge journal.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.journal import MAX_LENGTH, BadJournal, Phase, parse_journal
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport, NoRelease
from tests.support.objects import HOLDER, journal, kustomization, lease, mark, marked_node, node, observation


def report(*seen: Seen) -> FenceReport:
    return assemble(read_runs(observation(*seen), FENCECTL))


def text(**changes: Any) -> str:
    story: dict[str, Any] = journal(uid="uid-worker-2").to_object() | changes
    return json.dumps(story)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("", "x"),
        ("x", ""),
        ("a/secrets", "x"),
        ("..", "x"),
        ("x", "../../secrets/y"),
        ("x", "y?watch=true"),
        ("x", "y\r\nHost: z"),
        ("X", "y"),
        ("a" * 64, "y"),
        ("x", "y" * 254),
        ("x", "-y"),
    ],
)
def test_journal_that_names_a_lease_which_no_server_could_have_is_refused(namespace: str, name: str) -> None:
    """A recovery reads, watches and takes the lease that a journal names: the name becomes a path."""
    where = {"namespace": namespace, "name": name, "uid": "u", "duration": 30, "token": 1}
    assert parse_journal(text(lease=where)) == BadJournal(
        "the journal's `lease` has no name that a lease can have"
    )


@pytest.mark.parametrize("name", ["fencectl-deploy", "a", "a.b-c.1", "y" * 253])
def test_journal_that_names_a_lease_is_read(name: str) -> None:
    """DNS labels, as the API server has them."""
    where = {"namespace": "flux-system", "name": name, "uid": "u", "duration": 30, "token": 1}
    assert not isinstance(parse_journal(text(lease=where)), BadJournal)


@pytest.mark.parametrize("value", ['"\\ud800"', '"x\\udfffy"', '{"\\ud800": 1}', "1e999", "-1e999", "9" * 5000])
def test_journal_with_a_value_that_cannot_be_written_again_is_refused(value: str) -> None:
    """Half a surrogate pair or an endless number would end the report when the patch is encoded."""
    whole = text(prior={})[:-1] + f', "more": {value}}}'
    assert isinstance(parse_journal(whole), BadJournal)


def test_surrogate_pair_is_a_character() -> None:
    """Two halves that belong together are nothing strange."""
    assert not isinstance(parse_journal(text(reason="\U0001f600")), BadJournal)
    assert "\\ud83d" in text(reason="\U0001f600")


@pytest.mark.parametrize("kind", ["lease", "node", "kustomization"])
def test_object_without_uid_is_reported_and_refused(kind: str) -> None:
    """No patch can be guarded without one; the report goes on."""
    story = journal(phase=Phase.CLAIMED, prior={"unschedulable": False, "suspend": None})
    if kind == "lease":
        odd = lease()
    elif kind == "node":
        odd = node(unschedulable=True, annotations=mark(story))
    else:
        story = replace(story, phase=Phase.SUSPENDED)
        odd = kustomization(suspend=True, annotations=mark(story))
    bare = Seen(structs.replace(odd.ref, uid=""), odd.raw)
    (entry,) = report(bare).held
    assert entry.refusal is not None
    assert (entry.refusal.kind, entry.release) == (NoRelease.REFUSED, None)


def test_node_is_never_kept() -> None:
    """Only suspensions are left on purpose; a cordon that claims it must not be passed over in silence."""
    (entry,) = [e for e in report(lease(), marked_node(phase=Phase.KEPT)).held if e.object.kind == "Node"]
    assert not entry.kept
    assert entry.refusal is not None


def test_mark_that_was_copied_from_a_kept_fence_is_not_kept() -> None:
    """Its journal was written for another object."""
    story = journal(uid="uid-of-another", phase=Phase.KEPT, prior={"suspend": None})
    (entry,) = report(kustomization(suspend=True, annotations=mark(story))).held
    assert not entry.kept
    assert entry.refusal is not None


def test_case_40_huge_journal_is_reported_and_refused() -> None:
    """Longer than any run of ours writes."""
    story = journal(uid="uid-worker-2", reason="x" * MAX_LENGTH, phase=Phase.CLAIMED)
    (entry,) = report(node(unschedulable=True, annotations=mark(story))).held
    assert entry.holder_text == HOLDER
    assert entry.refusal is not None
    assert "longer than 64 KiB" in entry.refusal.why


def test_numbers_without_measure_in_a_journal_end_no_report() -> None:
    """Ranks, sequences and tokens beyond every machine word."""
    story = journal(
        uid="uid-worker-2", seq=-(10**40), rank=10**40, phase=Phase.CLAIMED, prior={"unschedulable": False}
    )
    (entry,) = report(node(unschedulable=True, annotations=mark(story))).held
    assert entry.refusal is None
