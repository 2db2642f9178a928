"""A killed chain on a sandbox without sockets, and a recovery of it whose clock and threads a test drives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

from fencectl.cluster.observe import observe
from fencectl.cluster.transport import Transport
from fencectl.cluster.write import create
from fencectl.commands.reading import Look
from fencectl.core.answers import Applied
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State
from fencectl.core.found import Found
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.outcome import Outcome, Told
from fencectl.core.profiles import FENCECTL, Profile
from fencectl.core.recovery import RecoveryPlan, Wanted, plan_recovery
from fencectl.run.foreign_recovery import ForeignRecovery
from fencectl.run.recovery import Recovery, recovery_journal
from fencectl.run.story import World
from fencectl.sandbox import Request, Sandbox
from tests.support.inprocess import START_AT, HandClock, SandboxDoor
from tests.support.objects import HOLDER, OTHER
from tests.support.played_deploy import PlayedDeploy

Raw = dict[str, Any]
LEASE = ("flux-system", "fencectl-deploy")
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
RECOVERER = "0000000000000000-local-ops-laptop-815-0badcafe"
ENDED = HolderEvidence(
    job=JobFact(State.ENDED, "has the job ended?", "completed", START_AT, recorded=True, hosted=True)
)
GONE = HolderEvidence(process=Fact(State.ENDED, "has the process ended?", "gone", START_AT))


class Idle:
    """A thread that does nothing; a test renews by hand."""

    def start(self, work: Callable[[], None], *, name: str) -> Idle:
        return self

    def join(self, timeout: float | None = None) -> None:
        return None

    def is_alive(self) -> bool:
        return False


@dataclass
class Scene:
    """One cluster, and whoever recovers on it."""

    sandbox: Sandbox = field(default_factory=lambda: Sandbox(manual_clock_at=START_AT))
    clock: HandClock = field(default_factory=HandClock)
    stop: threading.Event = field(default_factory=threading.Event)
    told: list[Told] = field(default_factory=list)
    profile: Profile = FENCECTL
    evidence: dict[str, HolderEvidence] = field(default_factory=lambda: {HOLDER: ENDED, OTHER: ENDED})

    def __post_init__(self) -> None:
        self.door = SandboxDoor(self.sandbox, self.clock)
        self.keeper_door = SandboxDoor(self.sandbox, self.clock)

    # The cluster

    def make(self, collection: str, body: Raw) -> Raw:
        answer = create(self.door, collection, body)
        assert isinstance(answer, Applied), answer
        return cast("Raw", answer.raw)

    def node(self, name: str, **more: Any) -> None:
        self.make("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name} | more})

    def kustomization(self, name: str, *, applied_by: str | None = None) -> None:
        labels = {
            "kustomize.toolkit.fluxcd.io/name": applied_by or "",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        }
        body: Raw = {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "flux-system", "labels": labels if applied_by else {}},
            "spec": {
                "interval": "10m",
                "prune": True,
                "path": "./",
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
            },
        }
        self.make(KUSTOMIZATIONS, body)

    def run_of(self, holder: str = HOLDER, lease: tuple[str, str] = LEASE, *, age_s: float = 3600) -> PlayedDeploy:
        at = self.clock.wall() - timedelta(seconds=age_s)
        return PlayedDeploy(cast("Transport", self.door), holder, lease, at, story={"repository": "acme/platform"})

    def killed_chain(self) -> PlayedDeploy:
        """Parent and child, two nodes, the lease, all of one run that was killed an hour ago."""
        self.kustomization("flux-system")
        self.kustomization("infrastructure", applied_by="flux-system")
        self.node("n1")
        self.node("n2")
        run = self.run_of()
        run.take_lease()
        run.suspend("flux-system", "flux-system", rank=1)
        run.suspend("flux-system", "infrastructure", rank=2)
        run.cordon("n1")
        run.cordon("n2")
        return run

    def get(self, path: str) -> Raw | None:
        found = self.door.get(path)
        return cast("Raw", json.loads(found.body)) if found.status == 200 else None

    def lease(self, path: str = LEASE_PATH) -> Raw:
        found = self.get(path)
        assert found is not None
        return cast("Raw", found["spec"])

    def write(self, path: str, body: Raw) -> None:
        """Write as somebody else would, without a guard."""
        request = Request(
            "PATCH", path, {}, {"content-type": "application/merge-patch+json"}, json.dumps(body).encode(), "admin"
        )
        assert self.sandbox.handle(request).status == 200

    def delete(self, path: str) -> None:
        assert self.sandbox.handle(Request("DELETE", path, {}, {}, b"", "admin")).status == 200

    def marks(self) -> list[str]:
        """Names of what still carries a mark."""
        return [f.ref.name for f in self.look().runs.reading.found]

    # The recovery

    def look(
        self, unchanged_for_s: Mapping[tuple[str, str], float] | None = None, vouched: Vouched = NOTHING_VOUCHED
    ) -> Look:
        seen = observe(self.door, profile=self.profile, clock=self.clock, deadline_s=30, server="http://sandbox")
        runs = read_runs(seen, self.profile, vouched=vouched)
        return Look(runs, assemble(runs, evidence=self.evidence, unchanged_for_s=unchanged_for_s or {}))

    def plans(self, wanted: Wanted | None = None) -> tuple[RecoveryPlan, ...]:
        look = self.look()
        chosen = wanted or Wanted(accept_presumed=True)
        return plan_recovery(look.report, look.runs.observation, self.profile, chosen)

    def plan(self, wanted: Wanted | None = None) -> RecoveryPlan:
        (plan,) = self.plans(wanted)
        return plan

    def world(self) -> World:
        return World(self.door, self.keeper_door, self.clock, Idle(), self.stop, self.told.append, self._left_of)

    def _left_of(self, key: str) -> list[Found]:
        return [found for found in self.look().runs.reading.found if found.group == key]

    def recover(self, plan: RecoveryPlan | None = None, *, holder: str = RECOVERER) -> Outcome:
        plan = plan or self.plan()
        own = Journal(holder, "", 1, 0, self.clock.wall(), Phase.RECOVERING)
        journal = recovery_journal(own, plan)
        return Recovery(self.world(), plan, journal=journal, vouched=NOTHING_VOUCHED).run()

    def recover_foreign(self, plan: RecoveryPlan | None = None) -> Outcome:
        return ForeignRecovery(self.world(), plan or self.plan()).run()

    @property
    def story(self) -> list[tuple[str, str]]:
        return [(told.result, told.fence.rpartition("/")[2]) for told in self.told]
