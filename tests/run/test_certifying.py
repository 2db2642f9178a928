"""
Step 7 in the transaction: what each decision ends in, what is recorded of it, and what stops it.

Aspects: certified · rejected by its command, by its rollout · unavailable · nothing that certifies · allowed ·
an object in both parts · the set and its prune · an interrupt, a lost lease · a node beside it.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fencectl.core.applyset import PART_OF, Contents, contents_of
from fencectl.core.certification import Outcome
from fencectl.core.deploy import CertifyPlan, DeployPlan
from fencectl.core.errors import ExitCode
from fencectl.core.rollout import Cause, Followed, Result as FollowResult, RolloutVerdict
from fencectl.run.fencing import Ledger
from fencectl.run.rolling_back import why_not_due
from fencectl.run.stage import Result
from fencectl.run.transaction import Deploy
from tests.support.applying import SET, Applying, config_map
from tests.support.deploying import LEASE_PATH

RECORD = "/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record"


@dataclass
class Canary:
    """A deploy of `app` with `canary` before it; the certify command is the scene's payload."""

    applying: Applying = field(default_factory=Applying)
    commands: list[list[str]] = field(default_factory=list)
    """What there was in the namespace each time that the certify command ran."""

    def code(self, code: int) -> Canary:
        def payload() -> int:
            self.commands.append(self.names())
            return code

        self.applying.scene.payload = payload
        return self

    def names(self) -> list[str]:
        return [name for name in self.applying.names() if name != "kube-root-ca.crt"]

    def plan(self, *, command: tuple[str, ...] = ("smoke",), allow: bool = False, **more: Any) -> DeployPlan:
        first = self.applying.plan(config_map("canary"), **more)
        plan = self.applying.plan(config_map("app"), **more)
        return replace(plan, certify=CertifyPlan(command, first.apply, "canary/", allow_uncertified=allow))

    def run(self, **more: Any) -> Result:
        result = self.applying.run(self.plan(**more))
        assert result is not None
        return result

    def record(self) -> dict[str, Any]:
        data = self.applying.get(RECORD)["data"]
        return dict(json.loads(data[f"record-{len(data)}"]))

    def spans(self) -> dict[str, Any]:
        return {span["what"]: span.get("how") for span in self.record()["timeline"]}

    def comes_to(self, verdict: RolloutVerdict, cause: Cause) -> None:
        """Have everything that is followed come to this."""

        def follow(targets: Any, timeout_s: float) -> Followed:
            results = tuple(FollowResult(one, verdict, cause, "as told", 1.0) for one in targets)
            return Followed(results, verdict)

        self.applying.follower.follow = follow  # type: ignore[method-assign]

    def comes_to_once(self, verdict: RolloutVerdict) -> None:
        """Have what is followed next come to this, and all later follows to success."""
        follower = self.applying.follower
        follower.verdict = verdict

        def well() -> None:
            follower.on_follow = lambda: setattr(follower, "verdict", RolloutVerdict.SUCCEEDED)

        follower.on_follow = well

    @property
    def told(self) -> list[str]:
        return [text for step, text in self.applying.scene.told if step == 7]

    def is_free(self) -> bool:
        scene = self.applying.scene
        return scene.state() == scene.before and not self.applying.get(LEASE_PATH)["spec"]["holderIdentity"]


@dataclass
class RunsOn:
    """Starts one command that runs until it is signalled, and ends with 0 then."""

    code: int
    signals: list[signal.Signals] = field(default_factory=list)
    group: int = 4711

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> RunsOn:
        return self

    def poll(self) -> int | None:
        return self.code if self.signals else None

    def wait(self) -> int:
        return self.code

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def group_lives(self) -> bool:
        return False


@pytest.fixture
def canary() -> Canary:
    return Canary().code(0)


def test_canary_is_applied_followed_and_certified_before_the_rest(canary: Canary) -> None:
    """Only the canary is there when the command looks; then all of it, one success, and the record says so."""
    canary.applying.fences = True
    result = canary.run()
    assert (result.code, result.certification.outcome) == (ExitCode.OK, Outcome.CERTIFIED)
    assert canary.commands == [["canary"]]
    assert canary.names() == ["app", "canary"]
    record = canary.record()
    assert (record["outcome"], record["certification"]["outcome"]) == ("deployed", "certified")
    assert (canary.spans()["canary"], canary.spans()["apply"]) == ("certified", "done")
    assert canary.told[-2:] == ["the certify command runs", "canary certified"]
    assert canary.is_free()


@pytest.mark.parametrize("allow", [False, True], ids=["not-allowed", "allowed"])
def test_canary_that_its_command_rejects_stops_the_deploy_whatever_is_allowed(canary: Canary, allow: bool) -> None:
    """18, for it is live; the rest is not begun, and everything is released."""
    canary.applying.fences = True
    result = canary.code(3).run(allow=allow)
    assert (result.code, result.step) == (ExitCode.FAILED_NEW_STATE_LIVE, 7)
    assert (result.cause, result.reason) == ("the canary was rejected", "the certify command ended with 3")
    assert canary.names() == ["canary"]
    record = canary.record()
    assert record["certification"] == {
        "outcome": "uncertified",
        "rejected": True,
        "why": "the certify command ended with 3",
    }
    assert (record["outcome"], record["step"], record["failure"]["what"]) == (
        "failed",
        7,
        "the canary was rejected: the certify command ended with 3",
    )
    assert (canary.spans()["canary"], "apply" in canary.spans()) == ("rejected", False)
    assert canary.is_free()


@pytest.mark.parametrize(
    ("verdict", "cause", "word", "code"),
    [
        (RolloutVerdict.FAILED, Cause.CRASH, "rejected", ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.TIMED_OUT, Cause.NOT_READY, "rejected", ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.TIMED_OUT, Cause.NODE, "unavailable", ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.UNKNOWN, Cause.UNREADABLE, "unavailable", ExitCode.OUTCOME_UNKNOWN),
    ],
    ids=["failed", "timed-out", "nodes-down", "not-followable"],
)
def test_canary_that_does_not_come_up_is_not_handed_to_its_command(
    canary: Canary, verdict: RolloutVerdict, cause: Cause, word: str, code: ExitCode
) -> None:
    """A rollout that failed rejects it; one that nobody could follow, or that nodes hold up, says nothing of it."""
    canary.comes_to(verdict, cause)
    result = canary.run()
    assert (result.certification.word, result.code, canary.commands) == (word, code, [])
    assert "configmap/shop/canary" in result.certification.why
    assert canary.names() == ["canary"]
    assert canary.record()["outcome"] == "failed"
    why = why_not_due(canary.plan(), result, Ledger())
    assert (why is None) == (word == "rejected")


def test_command_that_fails_after_a_canary_that_was_allowed_is_not_blamed_on_the_canary(canary: Canary) -> None:
    """What was allowed is over; the last follow is no longer what the deploy ended with."""
    canary.comes_to(RolloutVerdict.UNKNOWN, Cause.UNREADABLE)
    plan = replace(canary.plan(allow=True), apply=None, command=("upgrade",))
    result = canary.code(3).applying.run(plan)
    assert result is not None
    assert (result.code, result.step) == (ExitCode.FAILED_NEW_STATE_LIVE, 8)
    assert (result.followed, result.cause) == (None, "the command ended with 3")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (127, "the certify command could not be run (127)"),
        (137, "the certify command was killed by signal 9"),
    ],
)
def test_command_that_judges_nothing_stops_the_deploy_unless_that_is_allowed(
    canary: Canary, code: int, why: str
) -> None:
    """Said aloud either way; allowed, the rest follows, and the record keeps that nobody certified it."""
    stopped = canary.code(code).run()
    assert (stopped.certification.outcome, stopped.code) == (Outcome.UNAVAILABLE, ExitCode.FAILED_NEW_STATE_LIVE)
    assert (stopped.cause, stopped.reason) == ("the canary was not certified (unavailable)", why)
    assert "--allow-uncertified" in (stopped.hint or "")
    assert canary.told[-1] == f"canary unavailable: {why}"
    assert canary.names() == ["canary"]
    allowed = canary.run(allow=True)
    assert (allowed.code, canary.names()) == (ExitCode.OK, ["app", "canary"])
    assert canary.told[-1] == f"canary unavailable, and that is allowed: {why}"
    assert canary.record()["certification"] == {"outcome": "unavailable", "allowed": True, "why": why}
    assert canary.spans()["canary"] == "unavailable"


def test_canary_without_a_command_is_uncertified_and_goes_on_only_where_allowed(canary: Canary) -> None:
    """To come up is not to be certified: somebody has to say so, or to allow it."""
    stopped = canary.run(command=())
    assert (stopped.certification.word, stopped.code) == ("uncertified", ExitCode.FAILED_NEW_STATE_LIVE)
    assert stopped.reason == "no certify command was given"
    allowed = canary.run(command=(), allow=True)
    assert (allowed.code, allowed.certification.word, canary.commands) == (ExitCode.OK, "uncertified", [])


def test_deploy_that_asks_for_no_canary_says_not_requested(canary: Canary) -> None:
    """In the result and in the record; that is no outcome of step 7."""
    result = canary.applying.deploy(config_map("app"))
    assert result.certification.outcome is Outcome.NOT_REQUESTED
    assert canary.record()["certification"] == {"outcome": "not-requested"}
    assert "canary" not in canary.spans()


def test_certify_command_that_takes_too_long_is_ended_and_certifies_nothing(canary: Canary) -> None:
    """By its own time, not that of the deploy."""
    plan = canary.plan()
    assert plan.certify is not None
    plan = replace(plan, certify=replace(plan.certify, timeout_s=90.0), lease_duration_s=300)
    stage, running = canary.applying.stage(), RunsOn(code=0)
    stage.processes = running
    result = Deploy(stage, plan, canary.applying.scene.own()).run()
    assert result.certification.as_data() == {
        "outcome": "unavailable",
        "why": "the certify command was ended after 1m30s",
    }
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert running.signals


def test_object_in_both_parts_is_applied_twice_and_ends_as_the_rest_says(canary: Canary) -> None:
    """One replica first, all of them later: that is what a canary is."""
    first = canary.applying.plan(config_map("app", replicas="1"))
    plan = canary.applying.plan(config_map("app", replicas="10"))
    seen: list[Any] = []
    path = "/api/v1/namespaces/shop/configmaps/app"

    def look() -> int:
        seen.append(canary.applying.get(path)["data"])
        return 0

    canary.applying.scene.payload = look
    result = canary.applying.run(replace(plan, certify=CertifyPlan(("smoke",), first.apply)))
    assert result is not None
    assert result.code is ExitCode.OK, result.cause
    assert seen == [{"replicas": "1"}]
    assert canary.applying.get(path)["data"] == {"replicas": "10"}


def test_canary_is_of_the_set_so_that_it_is_neither_pruned_nor_forgotten(canary: Canary) -> None:
    """The prune of its own deploy leaves it; a later deploy without it takes it away."""
    canary.applying.keeps_set = True
    first = canary.applying.plan(config_map("canary"), prune=True)
    plan = canary.applying.plan(config_map("app"), prune=True)
    assert first.apply is not None
    assert plan.apply is not None
    refs = tuple(one.ref for one in first.apply.objects)
    rest = replace(plan.apply, canary=refs)
    result = canary.applying.run(
        replace(plan, apply=rest, certify=CertifyPlan(("smoke",), replace(first.apply, prune=False)))
    )
    assert result is not None
    assert result.code is ExitCode.OK, result.cause
    assert canary.names() == ["app", "canary"]
    labels = canary.applying.get("/api/v1/namespaces/shop/configmaps/canary")["metadata"]["labels"]
    assert PART_OF in labels
    before = contents_of([("", "ConfigMap", "shop")]) | Contents(frozenset(), frozenset({SET[0]}))
    later = canary.applying.deploy(config_map("app"), prune=True, before=before)
    assert later.code is ExitCode.OK, later.cause
    assert canary.names() == ["app"]


@pytest.mark.parametrize("when", ["before", "while"], ids=["while-it-is-followed", "while-its-command-runs"])
def test_interrupt_in_step_7_begins_no_rest_and_certifies_nothing(canary: Canary, when: str) -> None:
    """18 once the canary is live; also where the command ends with 0 in that very moment."""
    scene = canary.applying.scene

    def interrupt() -> int:
        scene.interrupted.set()
        scene.interrupt_code = ExitCode.TERMINATED
        return 0

    if when == "before":
        canary.applying.follower.on_follow = interrupt
    else:
        scene.payload = interrupt
    result = canary.run()
    assert (result.code, result.certification.outcome) == (ExitCode.FAILED_NEW_STATE_LIVE, Outcome.UNAVAILABLE)
    assert canary.names() == ["canary"]
    assert canary.record()["outcome"] == "interrupted"
    assert canary.is_free()


def test_lease_that_is_lost_while_the_command_runs_begins_no_rest(canary: Canary) -> None:
    """Nothing is recorded after the loss either: the last word is that the canary was to be certified."""
    scene = canary.applying.scene

    def lose() -> int:
        scene.clock.wait(None, 60)
        return 0

    scene.payload = lose
    result = canary.run()
    assert result.code in (ExitCode.LEASE_LOST, ExitCode.STILL_FENCED)
    assert result.lost is not None
    assert canary.names() == ["canary"]
    record = canary.record()
    assert (record["phase"], record.get("outcome")) == ("certifying", None)


def test_canary_that_the_server_refuses_changes_nothing_and_is_10(canary: Canary) -> None:
    """Refused at its first object: the previous state runs, and the command has nothing to look at."""
    plan = canary.plan(allow=True)
    canary.applying.scene.sandbox.faults.refuse(verb="patch", resource="configmaps", name="canary", status=422)
    result = canary.applying.run(plan)
    assert result is not None
    assert (result.code, result.certification.outcome) == (ExitCode.FAILED_PREVIOUS_RUNS, Outcome.UNAVAILABLE)
    assert (canary.names(), canary.commands) == ([], [])
    assert canary.is_free()


def test_canary_under_a_fence_of_this_run_cannot_be_certified(canary: Canary) -> None:
    """It moves once it is released only, so nobody can say what it does before that."""
    canary.applying.fences = True
    live = canary.applying.get("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps")
    held = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": "apps", "namespace": "flux-system", "labels": {"touched": "yes"}},
    }
    first, plan = canary.applying.plan(held), canary.applying.plan(config_map("app"))
    result = canary.applying.run(replace(plan, certify=CertifyPlan(("smoke",), first.apply)))
    assert result is not None
    assert result.certification.as_data() == {
        "outcome": "unavailable",
        "why": "kustomization/flux-system/apps cannot be followed: this run suspends it",
    }
    assert (result.code, canary.commands) == (ExitCode.OUTCOME_UNKNOWN, [])


def test_deploy_that_ends_before_its_canary_records_that_nothing_was_certified(canary: Canary) -> None:
    """Asked for and not reached is no `not-requested`."""
    scene = canary.applying.scene
    scene.rolled = canary.applying.fences = True
    plan = canary.plan()
    scene.sandbox.faults.refuse(verb="patch", resource="nodes", status=403)
    result = canary.applying.run(plan)
    assert result is not None
    assert result.code is not ExitCode.OK
    assert canary.record()["certification"] == {
        "outcome": "unavailable",
        "why": "the deploy ended before anything was certified",
    }


@pytest.mark.parametrize(
    ("code", "allow", "wanted"),
    [
        (0, False, ("certified", ExitCode.OK)),
        (127, True, ("unavailable", ExitCode.OK)),
        (127, False, ("unavailable", ExitCode.STILL_FENCED)),
        (3, True, ("rejected", ExitCode.STILL_FENCED)),
    ],
    ids=["certified", "allowed", "unavailable", "rejected"],
)
def test_rolled_node_is_certified_before_it_is_verified(
    canary: Canary, code: int, allow: bool, wanted: tuple[str, ExitCode]
) -> None:
    """One that is not stays `mutating`, 11: only a person can say whether it is good; step 8 is not begun then."""
    scene = canary.applying.scene
    scene.rolled = canary.applying.fences = True
    plan = replace(
        canary.applying.plan(config_map("app")), certify=CertifyPlan(("smoke",), allow_uncertified=allow)
    )
    scene.certifies = code
    result = canary.applying.run(plan)
    assert result is not None
    assert (result.certification.word, result.code) == wanted, result.cause
    told = [text for step, text in scene.told if step == 6]
    if wanted[1] is ExitCode.OK:
        assert canary.names() == ["app"]
        assert sum("its certify command runs" in text for text in told) == 2
        assert canary.is_free()
    else:
        assert canary.names() == []
        assert [one.fence.journal.phase.value for one in result.unwound.left] == ["mutating"]  # type: ignore[union-attr]
        assert "recover --node-verified" in (result.hint or "")


@pytest.mark.parametrize("ends", ["rejected", "failed-after-it"])
def test_rollback_brings_back_what_the_canary_has_changed(canary: Canary, ends: str) -> None:
    """Also an object of both parts, whichever of them was the last to change it: 10, and the previous state runs."""
    path = "/api/v1/namespaces/shop/configmaps/app"
    assert canary.applying.deploy(config_map("app", replicas="3")).code is ExitCode.OK
    first = canary.applying.plan(config_map("app", replicas="1"))
    plan = canary.applying.plan(config_map("app", replicas="10"))
    seen: list[Any] = []

    def judge() -> int:
        seen.append(canary.applying.get(path)["data"]["replicas"])
        if ends == "rejected":
            return 3
        canary.comes_to_once(RolloutVerdict.FAILED)
        return 0

    canary.applying.scene.payload = judge
    result = canary.applying.run(replace(plan, certify=CertifyPlan(("smoke",), first.apply), rollback_s=60.0))
    assert result is not None
    assert seen == ["1"]
    assert (result.code, result.step) == (ExitCode.FAILED_PREVIOUS_RUNS, 7 if ends == "rejected" else 8)
    assert canary.applying.get(path)["data"] == {"replicas": "3"}
    record = canary.record()
    assert (record["outcome"], record["rollback"]["verdict"]) == ("rolled-back", "back")
    assert canary.is_free()
