"""Objects that are rolled out, as the API server shows them, for tests of the verdicts."""

from __future__ import annotations

from typing import Any

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Around, Judgement, NodeFact, Target
from fencectl.core.rollout_judge import judge

Raw = dict[str, Any]

API = {
    "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
    "Job": "batch/v1", "Kustomization": "kustomize.toolkit.fluxcd.io/v1",
    "HelmRelease": "helm.toolkit.fluxcd.io/v2", "GitRepository": "source.toolkit.fluxcd.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1", "Widget": "acme.example/v1",
    "PodDisruptionBudget": "policy/v1", "Alert": "notification.toolkit.fluxcd.io/v1beta3",
    "CronJob": "batch/v1", "Role": "rbac.authorization.k8s.io/v1",
}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:2"}]}}


def obj(kind: str, spec: Raw | None = None, status: Any = None, *, generation: int | None = 2, **meta: Any) -> Raw:
    """Give an object named `web`; `meta` goes into its metadata."""
    metadata: Raw = {"name": "web", "namespace": "shop", "uid": "uid-web", "resourceVersion": "7", **meta}
    if generation is not None:
        metadata["generation"] = generation
    made: Raw = {"apiVersion": API.get(kind, "v1"), "kind": kind, "metadata": metadata}
    if spec is not None:
        made["spec"] = spec
    if status is not None:
        made["status"] = status
    return made


def target(kind: str, *, generation: int | None = 2, **more: Any) -> Target:
    ref = ObjectRef(API.get(kind, "v1"), kind, f"{kind.lower()}s", "shop", "web", "uid-web")
    return Target(ref, generation, **more)


def look(
    raw: Any,
    *,
    kind: str | None = None,
    pods: list[Raw] | None = None,
    sets: list[Raw] | None = None,
    down: tuple[str, ...] = (),
    ours: Raw | None = None,
    **of_target: Any,
) -> Judgement:
    """Judge one look at an object; `down`: nodes that are not Ready."""
    around = Around(pods, sets, {name: NodeFact("its condition Ready is Unknown") for name in down})
    return judge(target(kind or raw["kind"], **of_target), raw, around, ours=ours)


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", **more: Any) -> Raw:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def owner(uid: str, kind: str = "ReplicaSet") -> list[Raw]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": uid, "controller": True}]


def pod(name: str, of: str, node: str | None = "n1", *, status: Raw | None = None, **labels: Any) -> Raw:
    """Give a pod that a controller of this uid owns; without a status it is ready."""
    meta: Raw = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "ownerReferences": owner(of),
        "labels": labels,
    }
    return {
        "metadata": meta,
        "spec": {} if node is None else {"nodeName": node},
        "status": {"phase": "Running", "conditions": [condition("Ready")]} if status is None else status,
    }


def container(reason: str | None = None, *, restarts: int = 0, code: int | None = None, **more: Any) -> Raw:
    """Give the status of a pod whose container `app` is not ready."""
    ran = {"startedAt": "2026-11-30T02:59:00Z", "finishedAt": "2026-11-30T02:59:11Z"}
    last = {} if code is None else {"terminated": {"exitCode": code, "reason": "OOMKilled", **ran}}
    state = {"running": {}} if reason is None else {"waiting": {"reason": reason, "message": f"said {reason}"}}
    one = {"name": "app", "ready": False, "restartCount": restarts, "state": state, "lastState": last}
    return {"phase": "Running", "conditions": [condition("Ready", "False")], "containerStatuses": [one], **more}
