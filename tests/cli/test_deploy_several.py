"""
A deploy over several targets: in which order they are looked at and begun, whatever becomes of each of them.

The targets are scripted here; `tests/e2e/test_deploy_several.py` has them whole.
Aspects: the order · refused on any · not succeeded on any · something unexpected · a signal at any point · shown twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencectl.cluster.clock import SystemClock
from fencectl.commands import deploy_several
from fencectl.commands.deploy_several import DeployOnSeveral, Screen
from fencectl.commands.deploy_show import Among, Show
from fencectl.commands.deploy_target import Subjected
from fencectl.commands.options import Color, Output
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.signals import Signals
from fencectl.core.apply_plan import Change, What
from fencectl.core.errors import ExitCode, NotReadableError
from fencectl.core.refs import ObjectRef

OK, LIVE, LOST = ExitCode.OK, ExitCode.HELD_LIVE, ExitCode.LEASE_LOST
LABELS = ("a", "b", "c")


@dataclass
class Story:
    """What becomes of each target, and what was done so far. `signal_at`: a step at which one comes."""

    looks: dict[str, ExitCode | BaseException] = field(default_factory=dict)
    runs: dict[str, ExitCode | BaseException] = field(default_factory=dict)
    refused_later: frozenset[str] = frozenset()
    signal_at: str = ""
    signals: Signals = field(default_factory=lambda: Signals(threading.Event()))
    done: list[str] = field(default_factory=list)

    def step(self, what: str, label: str, code: ExitCode | BaseException) -> ExitCode:
        self.done.append(f"{what} {label}")
        if self.signal_at == self.done[-1]:
            self.signals.raise_for(ExitCode.TERMINATED)
        if isinstance(code, BaseException):
            raise code
        return code


class Scripted:
    """Stands in for one target's part."""

    def __init__(self, story: Story, label: str) -> None:
        self.story, self.label, self.begun, self.cluster_uid = story, label, False, label

    def look_first(self) -> ExitCode:
        return self.story.step("look", self.label, self.story.looks.get(self.label, OK))

    def run(self, _: ExitStack) -> ExitCode:
        self.begun = self.label not in self.story.refused_later
        return self.story.step("run", self.label, self.story.runs.get(self.label, OK))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a story over three targets; what was done, the code, and the sum as JSON."""

    def tell(story: Story, *, dry_run: bool = False) -> tuple[str, ExitCode, dict[str, Any]]:
        @contextmanager
        def opened(one: Any, _: Signals, screen: Screen, **more: Any) -> Iterator[Any]:
            show = Show(Output.JSON, Color.NEVER, SystemClock(), one.label, one.label, more["among"])
            with ExitStack() as after:
                yield Scripted(story, one.label), show, after

        monkeypatch.setattr(deploy_several, "opened", opened)
        options = DeployOptions(output=Output.JSON, dry_run=dry_run)
        targets = [
            SimpleNamespace(
                label=label,
                lease=("x", "y"),
                subject=SimpleNamespace(connection=SimpleNamespace(context_flag=label)),
            )
            for label in LABELS
        ]
        several = DeployOnSeveral(options, cast("list[Subjected]", targets), story.signals, Screen())
        code = ExitCode.UNEXPECTED
        try:
            code = several.run()
        finally:
            lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            story.done.append(json.dumps(lines[-1]))
        return " ".join(step for step in story.done[:-1]), code, lines[-1]

    return tell


def ends(summary: dict[str, Any]) -> list[tuple[int | None, bool]]:
    return [(one["exitCode"], one["begun"]) for one in summary["items"]]


ALL_LOOKS = "look a look b look c"


def test_all_are_looked_at_before_the_first_is_begun(told: Any) -> None:
    """Then one after the other, in the order named."""
    done, code, summary = told(Story())
    assert (done, code) == (f"{ALL_LOOKS} run a run b run c", OK)
    assert ends(summary) == [(0, True)] * 3


def test_dry_run_looks_and_begins_nothing(told: Any) -> None:
    """What is fit is not called deployed."""
    done, code, summary = told(Story(), dry_run=True)
    assert (done, code) == (ALL_LOOKS, OK)
    assert ends(summary) == [(None, False)] * 3


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "refusal", [LIVE, NotReadableError("nodes could not be read")], ids=["held", "unreadable"]
)
def test_refusal_on_any_target_begins_none_and_the_others_are_looked_at_too(
    told: Any, label: str, refusal: ExitCode | BaseException
) -> None:
    """So that whoever mends it learns of all refusals at once."""
    done, code, summary = told(Story(looks={label: refusal}))
    expected = refusal if isinstance(refusal, ExitCode) else ExitCode.INCOMPLETE
    assert (done, code) == (ALL_LOOKS, expected)
    assert [one["exitCode"] for one in summary["items"]] == [expected if one == label else None for one in LABELS]


def test_worst_of_several_refusals_decides(told: Any) -> None:
    """Each keeps its own."""
    _, code, summary = told(Story(looks={"a": LIVE, "c": ExitCode.HELD_PERSON_NEEDED}))
    assert code is ExitCode.HELD_PERSON_NEEDED
    assert ends(summary) == [(12, False), (None, False), (19, False)]


@pytest.mark.parametrize("number", range(3))
def test_first_that_does_not_succeed_is_the_last_and_hides_nothing_before_it(told: Any, number: int) -> None:
    """Whichever it is."""
    done, code, summary = told(Story(runs={LABELS[number]: LOST}))
    assert done == " ".join([ALL_LOOKS, *(f"run {label}" for label in LABELS[: number + 1])])
    assert code is LOST
    assert ends(summary) == [*[(0, True)] * number, (13, True), *[(None, False)] * (2 - number)]


def test_refusal_when_its_turn_comes_is_no_deploy_that_failed(told: Any) -> None:
    """Nothing was changed there."""
    _, code, summary = told(Story(runs={"b": LIVE}, refused_later=frozenset("b")))
    assert code is LIVE
    assert ends(summary) == [(0, True), (12, False), (None, False)]


def test_something_unexpected_is_raised_and_what_came_of_the_others_is_told_first(told: Any) -> None:
    """A deploy that is done is not hidden by the next one's failure."""
    story = Story(runs={"b": ValueError("never seen")})
    with pytest.raises(ValueError, match="never seen"):
        told(story)
    summary = json.loads(story.done[-1])
    assert summary["exitCode"] == 1
    assert ends(summary) == [(0, True), (1, True), (None, False)]


STEPS = ("look a", "look b", "look c", "run a", "run b", "run c")


@pytest.mark.parametrize("at", STEPS)
def test_signal_at_any_point_starts_nothing_more(told: Any, at: str) -> None:
    """What it comes to ends as it does; only when the last one is done does it change nothing."""
    done, code, summary = told(Story(signal_at=at))
    assert done == " ".join(STEPS[: STEPS.index(at) + 1])
    assert code is (OK if at == "run c" else ExitCode.TERMINATED)
    deployed = max(0, STEPS.index(at) - 2)
    assert ends(summary) == [*[(0, True)] * deployed, *[(None, False)] * (3 - deployed)]


def test_table_is_shown_again_only_where_it_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """When its turn comes a target is looked at once more; whoever watches need not compare two tables."""
    among = Among(1)
    ref = ObjectRef("v1", "ConfigMap", "configmaps", "default", "x", "")

    def shown(what: What) -> str:
        show = Show(Output.TEXT, Color.NEVER, SystemClock(), "a", "a", among)
        show.changes([Change(ref, what)], None, diff=False, ends=False)
        return capsys.readouterr().err

    assert "configmap/default/x  new" in shown(What.CREATE)
    assert shown(What.CREATE) == ""
    assert "configmap/default/x" in shown(What.CHANGE)
