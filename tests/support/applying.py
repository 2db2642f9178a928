"""Manifests in a deploy of this process: the real rendering, preview and step 8 on a sandbox without sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.read import Reads
from fencectl.core.apply_plan import ApplyPlan, SetPlan
from fencectl.core.applyset import Contents, contents_of, label_for
from fencectl.core.deploy import DeployPlan
from fencectl.core.manifests import Source, read_manifests
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Followed, Result as FollowResult, RolloutVerdict, Target, worst_verdict
from fencectl.run.preview import Preview, Previewer, resolve
from fencectl.run.stage import Result
from fencectl.run.transaction import Deploy, Stage
from tests.support.deploying import LEASE, KilledError, Scene
from tests.support.inprocess import SandboxDoor

CM = "/api/v1/namespaces/shop/configmaps"
SET = ("flux-system", "shop-set")


def config_map(name: str, namespace: str = "shop", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"a": "1"},
    }


@dataclass
class Follower:
    """Says of every target what the test says; keeps what it was given."""

    verdict: RolloutVerdict = RolloutVerdict.SUCCEEDED
    targets: list[Target] = field(default_factory=list)
    on_follow: Callable[[], object] = lambda: None

    def follow(self, targets: Sequence[Target], timeout_s: float) -> Followed:
        self.targets = list(targets)
        self.on_follow()
        results = tuple(FollowResult(one, self.verdict, Cause.DONE, "as told", 1.0) for one in targets)
        return Followed(results, worst_verdict(results))


@dataclass
class Applying:
    """One deploy after the other of manifests, all of them members of one set where `keeps_set`."""

    scene: Scene = field(default_factory=Scene)
    follower: Follower = field(default_factory=Follower)
    keeps_set: bool = False
    fences: bool = False

    def __post_init__(self) -> None:
        for name in ("shop", "web"):
            self.scene.sandbox.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        # NB: what previews and lists ask is not counted, nor struck.
        self.quiet = SandboxDoor(self.scene.sandbox, self.scene.clock)

    def resources(self) -> ApiResources:
        return ApiResources(Reads(self.quiet, clock=self.scene.clock, deadline_s=1e9))

    def preview(
        self, *objects: Any, force: bool = False, fenced: tuple[ObjectRef, ...] = (), label: str | None = None
    ) -> Preview:
        text = yaml.safe_dump_all(objects).encode()
        manifests = read_manifests([Source("all.yaml", text)])
        resolved = resolve(manifests, self.resources(), namespace="shop", enforced=False)
        previewer = Previewer(self.quiet, self.scene.clock, stop=threading.Event(), force=force)
        paths = {ref.path for ref in fenced}
        return previewer.preview(
            resolved, fenced=lambda ref: ref.path in paths, labels=label_for(label) if label else {}
        )

    def plan(
        self,
        *objects: Any,
        force: bool = False,
        prune: bool = False,
        partial: bool = False,
        before: Contents | None = None,
    ) -> DeployPlan:
        base = self.scene.plan() if self.fences else DeployPlan(lease=LEASE, command=())
        fenced = (*(ref for ref, _ in base.suspend), *base.nodes)
        applyset = SetPlan(*SET, before or Contents(), Contents()) if self.keeps_set else None
        found = self.preview(*objects, force=force, fenced=fenced, label=applyset.id if applyset else None)
        if applyset is not None:
            rendered = contents_of((one.ref.group, one.ref.kind, one.ref.namespace) for one in found.objects)
            applyset = replace(applyset, rendered=rendered)
        plan = ApplyPlan(
            found.objects,
            ("-f", "all.yaml"),
            found.changes,
            force=force,
            applyset=applyset,
            prune=prune,
            partial=partial,
        )
        return replace(base, command=(), apply=plan)

    def stage(self) -> Stage:
        stage = self.scene.stage()
        stage.follower = lambda must_stop, tell: self.follower
        return stage

    def run(self, plan: DeployPlan) -> Result | None:
        """Run it; None where it was killed."""
        self.scene.current = Deploy(self.stage(), plan, self.scene.own())
        try:
            return self.scene.current.run()
        except KilledError:
            return None

    def deploy(self, *objects: Any, **more: Any) -> Result:
        result = self.run(self.plan(*objects, **more))
        assert result is not None
        return result

    def get(self, path: str) -> Any:
        return self.scene.raw(path)

    def names(self, path: str = CM) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.get(path)["items"])
