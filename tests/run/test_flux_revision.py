"""Aspects: resumed in step 8 and followed · suspended again where it fails · not after an interrupt · siblings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fencectl.core.deploy import DeployPlan, plan_flux
from fencectl.core.errors import ExitCode, UsageError
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import RolloutVerdict
from fencectl.run.targets import find_suspensions
from tests.support.applying import Applying
from tests.support.deploying import KS, KUSTOMIZATION, LEASE, LEASE_PATH
from tests.support.inprocess import SandboxDoor

APPS = ("Kustomization", "flux-system", "apps")
REVISION = "main@sha1:9be1c04"


@dataclass
class Flux:
    """A deploy of `apps` under its parent, with what both say while it is followed."""

    applying: Applying = field(default_factory=Applying)
    seen: list[tuple[Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.applying.follower.on_follow = lambda: self.seen.append(self.suspended())

    def suspended(self) -> tuple[Any, Any]:
        """Whether the parent and the child are suspended."""
        raws = [self.applying.get(f"{KS}/{name}") for name in ("flux-system", "apps")]
        return raws[0]["spec"].get("suspend"), raws[1]["spec"].get("suspend")

    def plan(self, revision: str | None = REVISION) -> DeployPlan:
        scene = self.applying.scene
        found = find_suspensions(SandboxDoor(scene.sandbox, scene.clock), [APPS], [KUSTOMIZATION], scene.own())
        flux = plan_flux(APPS, found.objects, found.chains, revision)
        return DeployPlan(lease=LEASE, command=(), suspend=found.objects, added=found.added, flux=flux)

    def said(self) -> list[str]:
        return [text for step, text in self.applying.scene.told if step == 8]


def test_object_and_its_ancestor_are_resumed_and_followed_to_the_revision() -> None:
    """Child first; both are fenced before and free afterwards, and nothing else was released twice."""
    flux = Flux()
    before = flux.applying.scene.state()
    result = flux.applying.run(flux.plan())
    assert result is not None
    assert result.code is ExitCode.OK, (result.cause, result.reason)
    assert flux.seen == [(None, None)]
    (target,) = flux.applying.follower.targets
    assert (target.ref.name, target.revision) == ("apps", REVISION)
    assert target.generation == flux.applying.get(f"{KS}/apps")["metadata"]["generation"]
    assert [text for text in flux.said() if "resumed" in text] == [
        "resumed kustomization/flux-system/apps",
        "resumed kustomization/flux-system/flux-system",
    ]
    assert flux.applying.scene.state() == before
    assert flux.applying.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (RolloutVerdict.FAILED, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.TIMED_OUT, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.UNKNOWN, ExitCode.OUTCOME_UNKNOWN),
    ],
)
def test_revision_that_does_not_succeed_is_suspended_again_before_the_end(
    verdict: RolloutVerdict, code: ExitCode
) -> None:
    """Outermost first, with the drain proof; step 10 then gives everything back."""
    flux = Flux()
    flux.applying.follower.verdict = verdict
    before = flux.applying.scene.state()
    result = flux.applying.run(flux.plan())
    assert result is not None
    assert (result.code, result.step) == (code, 8)
    said = flux.said()
    again = said.index("suspends them again: Flux must not go on with what has not succeeded")
    assert [text for text in said[again:] if text.startswith(("suspended", "drained"))] == [
        "suspended kustomization/flux-system/flux-system",
        "suspended kustomization/flux-system/apps",
        "drained in 0s",
    ]
    assert flux.applying.scene.state() == before
    assert flux.applying.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


def test_interrupt_while_it_is_followed_leaves_no_time_to_suspend_again() -> None:
    """18: the revision may be live; everything is released."""
    flux = Flux()
    scene = flux.applying.scene

    def interrupt() -> None:
        scene.interrupt_code = ExitCode.TERMINATED
        scene.interrupted.set()

    flux.applying.follower.on_follow = interrupt
    flux.applying.follower.verdict = RolloutVerdict.WAITING
    before = scene.state()
    result = flux.applying.run(flux.plan())
    assert result is not None
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert not any("suspends them again" in text for text in flux.said())
    assert scene.state() == before


def test_object_that_cannot_be_resumed_ends_it_and_stays_named() -> None:
    """Nothing is followed; what the server refuses to release is still fenced, with its name."""
    flux = Flux()
    plan = flux.plan()
    scene = flux.applying.scene

    def forbid(number: int) -> None:
        if any(step == 8 for step, _ in scene.told) or "kustomizations/apps" in scene.door.sent[-1][1]:
            scene.sandbox.faults.refuse(verb="patch", resource="kustomizations", name="apps", status=403)

    scene.door.after = forbid
    result = flux.applying.run(plan)
    assert result is not None
    assert result.code is ExitCode.STILL_FENCED
    assert "kustomization/flux-system/apps could not be resumed" in (result.cause or "")
    assert flux.applying.follower.targets == []


def test_sibling_that_is_to_stay_suspended_is_a_contradiction() -> None:
    """Its parent would be resumed, and would bring the new revision to it."""
    apps, parent = (ObjectRef(*("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations"), "flux-system", name, name) for name in ("apps", "flux-system"))  # fmt: skip
    other = replace_name(apps, "other")
    objects = ((parent, 1), (apps, 2), (other, 2))
    chains = {parent: [], apps: [parent], other: [parent]}
    with pytest.raises(UsageError) as raised:
        plan_flux(APPS, objects, chains, None)
    assert raised.value.sentence == (
        "`--flux` would resume kustomization/flux-system/flux-system, and kustomization/flux-system/other under it"
        " is to stay suspended"
    )
    alone = {parent: [], apps: [parent], replace_name(apps, "elsewhere"): []}
    assert plan_flux(APPS, ((parent, 1), (apps, 2)), alone, None).chain == ((parent, 1), (apps, 2))


def replace_name(ref: ObjectRef, name: str) -> ObjectRef:
    return ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, name, name)
