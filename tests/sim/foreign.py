"""Everybody else: kubelets, controllers and people with kubectl and flux, whose writes know nothing of fences."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencectl.core.profiles import HOLDER, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.sandbox import StatusError
from fencectl.sandbox.storage import Change
from tests.sim.doors import Net

Raw = dict[str, Any]
FLUX = "flux-system"


@dataclass(slots=True)
class Foreigners:
    """
    Schedules and remembers foreign writes.

    `touched`: by object (kind, name), the fields that others have changed, whose prior value is nobody's promise.
    """

    net: Net
    touched: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    made_anew: set[tuple[str, str]] = field(default_factory=set)

    def plan(self, dice: random.Random, *, until_s: float, count: int, rough: bool) -> None:
        """Schedule `count` writes. `rough`: people resume, uncordon and delete what is fenced."""
        tame = [self.kubelet, self.controller, self.label_node, self.reconcile_now]
        wild = [self.cordon, self.uncordon, self.suspend, self.resume, self.node_anew, self.flux_anew]
        for _ in range(count):
            action = dice.choice(tame + wild if rough else tame)
            node, flux = dice.choice(("n1", "n2")), dice.choice(("web", "base"))
            self.net.kernel.at(dice.uniform(0.0, until_s), _Act(self, action, node, flux))

    def act(self, action: Callable[[str, str], None], node: str, flux: str) -> None:
        try:
            action(node, flux)
        except StatusError as refused:
            if refused.code != 404:
                raise

    # Nodes

    def kubelet(self, node: str, _: str) -> None:
        beat = f"{self.net.kernel.now_s:.3f}"
        status = {"conditions": [{"type": "Ready", "status": "True", "message": beat}]}
        self.net.sandbox.store.set_status("nodes", node, status, manager="kubelet")

    def label_node(self, node: str, _: str) -> None:
        labels = {"seen": f"t{self.net.kernel.steps}"}
        self._patch("nodes", node, {"metadata": {"labels": labels}}, "labeller")

    def cordon(self, node: str, _: str) -> None:
        self._touch("Node", node, "unschedulable")
        self._patch("nodes", node, {"spec": {"unschedulable": True}}, "kubectl-cordon")

    def uncordon(self, node: str, _: str) -> None:
        self._touch("Node", node, "unschedulable")
        self._patch("nodes", node, {"spec": {"unschedulable": None}}, "kubectl-cordon")

    def node_anew(self, node: str, _: str) -> None:
        self.net.kernel.say("foreigner", f"deletes node {node} and makes it anew")
        self.net.sandbox.store.delete("nodes", node)
        self.net.sandbox.store.create(make_node(node, {}), manager="kubelet")
        self.made_anew.add(("Node", node))

    # Flux

    def controller(self, _: str, flux: str) -> None:
        found = self.net.sandbox.store.find("kustomizations", flux, namespace=FLUX)
        if found is None:
            return
        status = dict(found.get("status") or {})
        status["lastHandledReconcileAt"] = (found["metadata"].get("annotations") or {}).get(REQUESTED_AT, "never")
        self.net.sandbox.store.set_status(
            "kustomizations", flux, status, namespace=FLUX, manager="kustomize-controller"
        )

    def reconcile_now(self, _: str, flux: str) -> None:
        self._touch("Kustomization", flux, REQUESTED_AT)
        at = {REQUESTED_AT: f"2024-11-30T02:00:{self.net.kernel.now_s:.3f}Z"}
        self._patch("kustomizations", flux, {"metadata": {"annotations": at}}, "flux")

    def suspend(self, _: str, flux: str) -> None:
        self._touch("Kustomization", flux, "suspend")
        self._patch("kustomizations", flux, {"spec": {"suspend": True}}, "flux")

    def resume(self, _: str, flux: str) -> None:
        self._touch("Kustomization", flux, "suspend")
        self._patch("kustomizations", flux, {"spec": {"suspend": False}}, "flux")

    def flux_anew(self, _: str, flux: str) -> None:
        self.net.kernel.say("foreigner", f"deletes kustomization {flux} and makes it anew")
        self.net.sandbox.store.delete("kustomizations", flux, namespace=FLUX)
        self.net.sandbox.store.create(make_kustomization(flux, {}), manager="flux")
        self.made_anew.add(("Kustomization", flux))

    # The lease

    def delete_lease(self, namespace: str, name: str) -> None:
        self.net.kernel.say("foreigner", f"deletes lease {namespace}/{name}")
        self.act(lambda *_: self.net.sandbox.store.delete("leases", name, namespace=namespace), "", "")

    def _patch(self, resource: str, name: str, patch: Raw, manager: str) -> None:
        namespace = FLUX if resource == "kustomizations" else ""
        self.net.kernel.say("foreigner", f"{manager} {name}: {patch}")
        self.net.sandbox.store.patch(resource, name, patch, namespace=namespace, manager=manager)

    def _touch(self, kind: str, name: str, what: str) -> None:
        self.touched.setdefault((kind, name), set()).add(what)


@dataclass(slots=True)
class FluxController:
    """
    kustomize-controller, as far as a drain proof goes: it answers each request after a while.

    `silent`: how often it does not.
    """

    net: Net
    silent: float = 0.0
    _asked: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.net.sandbox.storage.on_change(self._changed)

    def _changed(self, change: Change) -> None:
        obj = change.after
        if obj is None or obj.get("kind") != "Kustomization":
            return
        name, kernel = obj["metadata"]["name"], self.net.kernel
        asked = (obj["metadata"].get("annotations") or {}).get(REQUESTED_AT, "")
        # NB: other requests are answered as well, and nobody here waits for that.
        if HOLDER not in (obj["metadata"].get("annotations") or {}) or asked == self._asked.get(name):
            return
        self._asked[name] = asked
        if kernel.random.random() >= self.silent:
            kernel.at(kernel.now_s + kernel.random.uniform(0.05, 3.0), lambda: self._handle(name))

    def _handle(self, name: str) -> None:
        found = self.net.sandbox.store.find("kustomizations", name, namespace=FLUX)
        if found is None:
            return
        status = dict(found.get("status") or {})
        status["lastHandledReconcileAt"] = (found["metadata"].get("annotations") or {}).get(REQUESTED_AT, "never")
        self.net.sandbox.store.set_status("kustomizations", name, status, namespace=FLUX, manager="flux")


@dataclass(frozen=True, slots=True)
class _Act:
    """One foreign write, to be done when its time has come."""

    who: Foreigners
    action: Callable[[str, str], None]
    node: str
    flux: str

    def __call__(self) -> None:
        self.who.act(self.action, self.node, self.flux)


def make_node(name: str, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> Raw:
    metadata: Raw = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": dict(spec), "status": ready}


def make_kustomization(name: str, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> Raw:
    """`base` applies itself and everything else."""
    labels = {"kustomize.toolkit.fluxcd.io/name": "base", "kustomize.toolkit.fluxcd.io/namespace": FLUX}
    metadata: Raw = {"name": name, "namespace": FLUX, "labels": labels}
    if annotations:
        metadata["annotations"] = dict(annotations)
    source = {"kind": "GitRepository", "name": "fleet"}
    whole = {"interval": "10m", "prune": True, "path": "./", "sourceRef": source, **spec}
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": metadata,
        "spec": whole,
    }


_IDS = [{"id": f"{FLUX}_{name}_kustomize.toolkit.fluxcd.io_Kustomization", "v": "v1"} for name in ("base", "web")]
INVENTORY: Raw = {"inventory": {"entries": _IDS}}
"""What `base` says of itself."""


def state_of(obj: Raw) -> dict[str, Any]:
    """The fields of an object that a fence may change."""
    annotations = obj["metadata"].get("annotations") or {}
    spec = obj.get("spec") or {}
    if obj["kind"] == "Node":
        # NB: `false` and absent are the same to everybody here; the server drops false itself.
        return {"unschedulable": bool(spec.get("unschedulable"))}
    return {
        "suspend": spec.get("suspend"),
        RECONCILE: annotations.get(RECONCILE),
        SUSPENDED_BY: annotations.get(SUSPENDED_BY),
        REQUESTED_AT: annotations.get(REQUESTED_AT),
    }
