"""The table of resources: what exists, under which group and version, and how each kind behaves."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencectl.sandbox.schema import Type
from fencectl.sandbox.types_builtin import TYPES
from fencectl.sandbox.types_flux import FLUX_TYPES

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
OBJECT_META = TYPES["ObjectMeta"]
POD_SELECTORS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
EVENT_SELECTORS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one version."""

    group: str
    version: str
    plural: str
    kind: str
    type: Type
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    field_selectors: tuple[str, ...] = ()
    # Custom kinds are stored as sent (pruned by their schema); built-in ones as Go's types would write them.
    custom: bool = False
    # Whether the server counts changes of the spec in metadata.generation.
    has_generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    singular: str = ""
    # Printer columns of custom kinds: name, type, JSON path, priority.
    columns: tuple[tuple[str, str, str, int], ...] = ()
    # Another resource whose objects these are (events exist in two groups).
    alias_of: tuple[str, str] | None = None
    verbs: tuple[str, ...] = VERBS
    # Whether its schema has validation rules: the server says when it did not get to them.
    has_rules: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        return (self.group, self.plural)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()


def _built_in(spec: str, *, group: str = "", version: str = "v1", shape: str = "", **more: Any) -> Resource:
    plural, kind, *short = spec.split()
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        type=TYPES[shape or kind],
        short_names=tuple(short),
        **more,
    )


def built_in_resources() -> list[Resource]:
    """Return the resources that every sandbox has."""
    apps: dict[str, Any] = {"group": "apps", "has_generation": True, "categories": ("all",)}
    rbac = "rbac.authorization.k8s.io"
    scale = ("status", "scale")
    return [
        _built_in(
            "namespaces Namespace ns",
            namespaced=False,
            subresources=("status", "finalize"),
            field_selectors=("status.phase",),
            verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        ),
        _built_in(
            "nodes Node no",
            namespaced=False,
            subresources=("status",),
            field_selectors=("spec.unschedulable",),
        ),
        _built_in(
            "pods Pod po",
            categories=("all",),
            subresources=("status", "binding", "eviction", "log"),
            field_selectors=POD_SELECTORS,
            has_generation=True,
        ),
        _built_in("configmaps ConfigMap cm"),
        _built_in("secrets Secret", field_selectors=("type",)),
        _built_in("serviceaccounts ServiceAccount sa"),
        _built_in("services Service svc", categories=("all",), subresources=("status",)),
        _built_in("events Event ev", field_selectors=EVENT_SELECTORS, create_on_update=True),
        _built_in("deployments Deployment deploy", **apps, subresources=scale),
        _built_in("replicasets ReplicaSet rs", **apps, subresources=scale),
        _built_in("statefulsets StatefulSet sts", **apps, subresources=scale),
        _built_in("daemonsets DaemonSet ds", **apps, subresources=("status",)),
        _built_in("controllerrevisions ControllerRevision", group="apps", version="v1"),
        _built_in(
            "jobs Job",
            group="batch",
            has_generation=True,
            categories=("all",),
            subresources=("status",),
            field_selectors=("status.successful",),
        ),
        _built_in(
            "poddisruptionbudgets PodDisruptionBudget pdb",
            group="policy",
            has_generation=True,
            subresources=("status",),
        ),
        _built_in(
            "leases Lease",
            group="coordination.k8s.io",
            unconditional_update=False,
            create_on_update=True,
        ),
        _built_in(
            "events Event ev",
            group="events.k8s.io",
            shape="EventV1",
            alias_of=("", "events"),
            create_on_update=True,
            field_selectors=EVENT_SELECTORS,
        ),
        _built_in("roles Role", group=rbac),
        _built_in("rolebindings RoleBinding", group=rbac),
        _built_in("clusterroles ClusterRole", group=rbac, namespaced=False),
        _built_in("clusterrolebindings ClusterRoleBinding", group=rbac, namespaced=False),
        _built_in(
            "customresourcedefinitions CustomResourceDefinition crd crds",
            group="apiextensions.k8s.io",
            namespaced=False,
            categories=("api-extensions",),
            has_generation=True,
            unconditional_update=False,
            subresources=("status",),
        ),
    ]


_READY = (
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Status", "string", '.status.conditions[?(@.type=="Ready")].message', 0),
)
# kind, plural, group, version, short names, type: facts of the CRDs that Flux 2.9 installs.
_FLUX = (
    ("Kustomization", "kustomizations", "kustomize", "v1", ("ks",), "Kustomization"),
    ("HelmRelease", "helmreleases", "helm", "v2", ("hr",), "FluxObject"),
    ("GitRepository", "gitrepositories", "source", "v1", ("gitrepo",), "GitRepository"),
    ("OCIRepository", "ocirepositories", "source", "v1", ("ocirepo",), "OCIRepository"),
    ("Bucket", "buckets", "source", "v1", (), "Bucket"),
    ("HelmRepository", "helmrepositories", "source", "v1", ("helmrepo",), "HelmRepository"),
    ("HelmChart", "helmcharts", "source", "v1", ("hc",), "HelmChart"),
    ("ExternalArtifact", "externalartifacts", "source", "v1", (), "FluxPlain"),
    ("ImageRepository", "imagerepositories", "image", "v1", ("imgrepo", "imagerepo"), "FluxObject"),
    ("ImagePolicy", "imagepolicies", "image", "v1", ("imgpol", "imagepol"), "FluxPolicy"),
    ("ImageUpdateAutomation", "imageupdateautomations", "image", "v1", ("iua", "imgupd"), "FluxObject"),
    ("Receiver", "receivers", "notification", "v1", (), "FluxReceiver"),
    ("Alert", "alerts", "notification", "v1beta3", (), "FluxPlain"),
    ("Provider", "providers", "notification", "v1beta3", (), "FluxPlain"),
)


_WITH_RULES = ("Kustomization", "HelmRelease", "GitRepository", "Bucket", "HelmChart")


def _flux_categories(area: str) -> tuple[str, ...]:
    kinds = {"kustomize": "fluxcd-appliers", "helm": "fluxcd-appliers", "source": "fluxcd-sources"}
    return ("all", "fluxcd", kinds[area]) if area in kinds else ("all", "fluxcd")


def _flux_columns(kind: str, shape: str) -> tuple[tuple[str, str, str, int], ...]:
    age, ready, state = _READY
    if kind == "ExternalArtifact":
        return (*_READY, ("Source", "string", ".spec.sourceRef.name", 0))
    if shape == "FluxPlain":
        return (age,)
    if kind == "OCIRepository":
        return (_URL, ready, state, age)
    first = {"GitRepository": (_URL,), "HelmRepository": (_URL,), "HelmChart": _CHART}
    first["Bucket"] = (("Endpoint", "string", ".spec.endpoint", 0),)
    return (*first.get(kind, ()), *_READY)


_URL = ("URL", "string", ".spec.url", 0)
_CHART = (
    ("Chart", "string", ".spec.chart", 0),
    ("Version", "string", ".spec.version", 0),
    ("Source Kind", "string", ".spec.sourceRef.kind", 0),
    ("Source Name", "string", ".spec.sourceRef.name", 0),
)


def flux_resources() -> list[Resource]:
    """Return the kinds that an installation of Flux brings."""
    return [
        Resource(
            categories=_flux_categories(area),
            group=f"{area}.toolkit.fluxcd.io",
            version=version,
            plural=plural,
            kind=kind,
            type=FLUX_TYPES[shape],
            short_names=short,
            subresources=() if shape == "FluxPlain" and kind != "ExternalArtifact" else ("status",),
            custom=True,
            has_rules=kind in _WITH_RULES,
            has_generation=True,
            unconditional_update=False,
            columns=_flux_columns(kind, shape),
        )
        for kind, plural, area, version, short, shape in _FLUX
    ]


@dataclass(slots=True)
class ResourceTable:
    """The resources that are served now. Kinds come and go while the server runs."""

    _by_key: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    # What a name was found to mean; forgotten whenever a kind comes or goes.
    _by_name: dict[str, Resource] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, resources: Iterable[Resource]) -> None:
        with self._lock:
            changed = dict(self._by_key)
            for resource in resources:
                changed[resource.group, resource.version, resource.plural] = resource
            self._by_key, self._by_name = changed, {}

    def remove(self, resources: Iterable[Resource]) -> None:
        with self._lock:
            gone = {(resource.group, resource.version, resource.plural) for resource in resources}
            self._by_key = {key: value for key, value in self._by_key.items() if key not in gone}
            self._by_name = {}

    def all(self) -> list[Resource]:
        return list(self._by_key.values())

    def find(self, *, group: str, version: str, plural: str) -> Resource | None:
        return self._by_key.get((group, version, plural))

    def of(self, name: str) -> Resource:
        """Find a resource as a person names it: plural, singular, kind, short name, `plural.group`."""
        by_name = self._by_name
        if found := by_name.get(name):
            return found
        wanted, _, group = name.lower().partition(".")
        for resource in self._by_key.values():
            names = (resource.plural, resource.singular_name, resource.kind.lower(), *resource.short_names)
            if wanted in names and (
                not group or group in (resource.group, f"{resource.version}.{resource.group}")
            ):
                by_name[name] = resource
                return resource
        raise KeyError(name)

    def of_object(self, *, api_version: str, kind: str) -> Resource:
        for resource in self._by_key.values():
            if resource.api_version == api_version and resource.kind == kind:
                return resource
        raise KeyError(f"{api_version} {kind}")

    def versions(self) -> dict[str, list[str]]:
        """Group → its versions, in the order in which they were added."""
        found: dict[str, list[str]] = {}
        for resource in self._by_key.values():
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return found
