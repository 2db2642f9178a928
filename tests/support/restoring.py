"""A recovery point taken by hand on a sandbox, and its restore by the real transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fencectl.core.captured import before_of, cleaned
from fencectl.core.deploy import DeployPlan, RestorePlan
from fencectl.core.recovery_point import Captured, RecoveryPoint
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.stage import Result
from tests.support.applying import Applying
from tests.support.deploying import LEASE

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
RECORD_PATH = "/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record"


def deployment(image: str = "web:1", name: str = "web", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
            **spec,
        },
    }


@dataclass
class Restoring:
    """One target; `capture` what is there, change it by a deploy, `restore` it by another."""

    applying: Applying = field(default_factory=Applying)
    captured: list[Captured] = field(default_factory=list)

    def capture(self, api_version: str, kind: str, plural: str, name: str, planned: Any = None) -> None:
        """Take in an object of the namespace `shop` as it is, or that it is not there."""
        ref = ObjectRef(api_version, kind, plural, "shop", name, "")
        raw = self.applying.get(ref.path)
        if raw.get("kind") == "Status":
            self.captured.append(Captured(ref, None, planned))
            return
        ref = ObjectRef(api_version, kind, plural, "shop", name, raw["metadata"]["uid"])
        self.captured.append(Captured(ref, before_of(Seen(ref, raw)), planned))

    def remember_planned(self) -> None:
        """What a deploy has made of each object since, as its dry run would have said."""
        for number, one in enumerate(self.captured):
            raw = self.applying.get(one.ref.path)
            self.captured[number] = replace(one, planned=None if raw.get("kind") == "Status" else cleaned(raw))

    def point(self, generation: int = 2) -> RecoveryPoint:
        now = self.applying.scene.clock.wall()
        return RecoveryPoint(generation, "h", now, "apply", "main@sha1:9be1c044", tuple(self.captured))

    def plan(
        self, generation: int = 2, *, ended_at: datetime | None = None, timeout_s: float = 60.0
    ) -> DeployPlan:
        base = self.applying.scene.plan() if self.applying.fences else DeployPlan(lease=LEASE, command=())
        restore = RestorePlan(self.point(generation), ended_at, timeout_s)
        return replace(base, command=(), nodes=(), restore=restore)

    def restore(self, generation: int = 2, **more: Any) -> Result:
        result = self.applying.run(self.plan(generation, **more))
        assert result is not None
        return result

    def record(self, generation: int) -> Any:
        return json.loads(self.applying.get(RECORD_PATH)["data"][f"record-{generation}"])

    def change(self, path: str, how: Any) -> None:
        raw = self.applying.get(path)
        how(raw)
        self.applying.scene.sandbox.store.update(raw)


def changed_by_a_deploy() -> Restoring:
    """A Deployment and a ConfigMap that generation 1 brought and generation 2 has changed; captured before that."""
    from tests.support.applying import config_map

    restoring = Restoring()
    applying = restoring.applying
    applying.deploy(deployment("web:1"), config_map("a", a="1"))
    restoring.capture("apps/v1", "Deployment", "deployments", "web")
    restoring.capture("v1", "ConfigMap", "configmaps", "a")
    applying.deploy(deployment("web:2"), config_map("a", a="2", b="new"))
    restoring.remember_planned()
    applying.scene.told.clear()
    applying.scene.door.sent.clear()
    applying.scene.door.writes = 0
    return restoring
