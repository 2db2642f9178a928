"""
What is sent by server-side apply, and in which order: the counterpart of `patches` for whole objects.

A `Configuration` is frozen and its body is the final text; the writer takes only this type. Whatever would touch a
fence is left out of it, and named: a mark or a suspension of the manifest would undo what this run placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.core.gojson import encode
from fencectl.core.manifests import Manifest
from fencectl.core.profiles import HOLDER, JOURNAL, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.refs import ObjectRef, Raw, dig

CONTENT_TYPE = "application/apply-patch+yaml"

_MARKS = (HOLDER, JOURNAL)
_FENCED_ANNOTATIONS = (RECONCILE, REQUESTED_AT, SUSPENDED_BY)
_CORDON_TAINT = "node.kubernetes.io/unschedulable"

# What others need comes first, what can refuse others comes last. Kinds that are not named: between the two.
_STAGES = (
    ("Namespace",),
    ("CustomResourceDefinition",),
    ("PriorityClass", "StorageClass", "RuntimeClass", "IngressClass", "ClusterRole", "ServiceAccount", "Role"),
    ("ClusterRoleBinding", "RoleBinding", "ResourceQuota", "LimitRange"),
    ("ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "Service"),
)
_LAST = (
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
_STAGE_OF = {kind: number for number, kinds in enumerate(_STAGES) for kind in kinds}
_OTHERS, _END = len(_STAGES), len(_STAGES) + 1
CRDS = 1


@dataclass(frozen=True, slots=True)
class Configuration:
    """
    One object as it is applied. `body`: its JSON, encoded as Go does. `left_out`: fields that a fence has of it.

    `where`: the place of its manifest.
    """

    target: ObjectRef
    body: str
    where: str
    left_out: tuple[str, ...] = ()


def stage_of(kind: str) -> int:
    """The place of a kind in the order of applying; pruning goes the other way."""
    return _END if kind in _LAST else _STAGE_OF.get(kind, _OTHERS)


def in_order(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Namespaces, definitions, what others refer to, all else, webhooks; within each as written."""
    return tuple(sorted(manifests, key=lambda one: stage_of(one.kind)))


def configure(
    manifest: Manifest, target: ObjectRef, *, fenced: bool, labels: Mapping[str, str] | None = None
) -> Configuration:
    """
    Make the configuration of an object. `fenced`: it is, or will be, under a fence of this run.

    Marks are left out whatever carries them: one that was copied from a cluster is no fence.
    """
    metadata: dict[str, Any] = dict(dig(manifest.raw, "metadata") or {})
    left_out = _without(metadata, "annotations", (*_MARKS, *(_FENCED_ANNOTATIONS if fenced else ())))
    metadata.pop("namespace", None)
    if target.namespace is not None:
        metadata["namespace"] = target.namespace
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    raw: dict[str, Any] = {**manifest.raw, "metadata": metadata}
    spec = raw.get("spec")
    if fenced and isinstance(spec, Mapping):
        raw["spec"] = spec = dict(spec)
        left_out += _without_cordon(spec) if target.kind == "Node" and not target.group else _without_suspend(spec)
    return Configuration(target, encode(raw), manifest.where, tuple(left_out))


def _without(metadata: dict[str, Any], key: str, names: Iterable[str]) -> list[str]:
    found = metadata.get(key)
    if not isinstance(found, Mapping):
        return []
    gone = [name for name in names if name in found]
    if gone:
        metadata[key] = {name: value for name, value in found.items() if name not in gone}
    return [f"metadata.{key}[{name}]" for name in gone]


def _without_suspend(spec: dict[str, Any]) -> list[str]:
    if "suspend" not in spec:
        return []
    del spec["suspend"]
    return ["spec.suspend"]


def _without_cordon(spec: dict[str, Any]) -> list[str]:
    left_out = []
    if "unschedulable" in spec:
        del spec["unschedulable"]
        left_out.append("spec.unschedulable")
    taints = spec.get("taints")
    if isinstance(taints, list) and any(dig(taint, "key") == _CORDON_TAINT for taint in taints):
        spec["taints"] = [taint for taint in taints if dig(taint, "key") != _CORDON_TAINT]
        left_out.append(f"spec.taints[{_CORDON_TAINT}]")
    return left_out


@dataclass(frozen=True, slots=True)
class Defined:
    """A kind that a definition among the manifests brings: its plural, its scope, and the definition's name."""

    plural: str
    namespaced: bool
    definition: str
    has_status: bool


def kinds_defined(manifests: Iterable[Manifest]) -> dict[tuple[str, str], Defined]:
    """The kinds (apiVersion, kind) that CustomResourceDefinitions among the manifests serve."""
    found: dict[tuple[str, str], Defined] = {}
    for one in manifests:
        if one.kind != "CustomResourceDefinition" or one.group != "apiextensions.k8s.io":
            continue
        group, kind = dig(one.raw, "spec", "group"), dig(one.raw, "spec", "names", "kind")
        plural, versions = dig(one.raw, "spec", "names", "plural"), dig(one.raw, "spec", "versions")
        if not (isinstance(group, str) and isinstance(kind, str) and isinstance(plural, str)):
            continue
        namespaced = dig(one.raw, "spec", "scope") == "Namespaced"
        for version in versions if isinstance(versions, list) else ():
            name = dig(version, "name")
            if isinstance(name, str) and dig(version, "served") is True:
                has_status = dig(version, "subresources", "status") is not None
                found[f"{group}/{name}", kind] = Defined(plural, namespaced, one.name, has_status)
    return found


def is_established(crd: Raw) -> bool:
    """Whether a definition is served by now."""
    conditions = dig(crd, "status", "conditions")
    return any(
        dig(one, "type") == "Established" and dig(one, "status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )
