"""
What each command needs to be allowed: the one list, from which roles are printed and permissions are asked.

Three roles, each with all of the one before: `report` reads, `recover` also releases and holds, `deploy` also
places, records and drains. What a deploy's own command or manifests need is not in them, nor reading (`get`, and
`list` where they are many) what they or the suspended Flux objects apply, which the recovery point captures: only
who runs the deploy knows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import structs

from fencectl.core.applyset import default_set
from fencectl.core.profiles import Profile

# Flux's groups that have kinds which can be suspended (`spec.suspend`).
FLUX_GROUPS = (
    "source.toolkit.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "notification.toolkit.fluxcd.io",
)


class Role(StrEnum):
    """Who is to be allowed what."""

    REPORT = "report"
    RECOVER = "recover"
    DEPLOY = "deploy"


class Rule(msgspec.Struct, frozen=True):
    """
    One rule of a role.

    `namespace`: where it is enough, as beside the lease; empty: in all of them. `names`: of the objects, where
    RBAC can say so. `why`: what it is for, a clause. `seldom`: needed only where `why` says.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    namespace: str = ""
    names: tuple[str, ...] = ()
    seldom: bool = False


class Access(msgspec.Struct, frozen=True):
    """One permission, as the API server is asked for it."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    seldom: bool = False

    @property
    def title(self) -> str:
        """`patch nodes`, `create pods/eviction`, `get configmaps (namespace flux-system)`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        resource = f"{resource}.{self.group}" if self.group else resource
        return f"`{self.verb}` {resource}" + (f" (namespace {self.namespace})" if self.namespace else "")


_READ = ("get", "list", "watch")
_WORKLOADS = ("deployments", "statefulsets", "daemonsets", "replicasets")


def rules_for(role: Role, profile: Profile) -> tuple[Rule, ...]:
    """Every rule of a role, for the lease that the profile names."""
    beside, record = profile.lease[0], f"{profile.lease[1]}-record"
    # NB: the lease of the other profile is read by name too, with what may stand beside it.
    named: dict[str, list[str]] = {}
    for namespace, name in (profile.lease, profile.other_lease):
        named.setdefault(namespace, []).append(name)
    group = ("coordination.k8s.io",)
    leases = [Rule(group, ("leases",), _READ, "leases, found by label in all namespaces")]
    if not profile.by_label:
        leases = [
            Rule(group, ("leases",), _READ, "the leases", namespace=namespace, names=tuple(names))
            for namespace, names in named.items()
        ]
    records = [
        Rule(
            ("",), ("configmaps",), _READ, "the record beside a lease", namespace=namespace,
            names=tuple(f"{name}-record" for name in names),
        )
        for namespace, names in named.items()
    ]  # fmt: skip
    rules = [
        Rule(("",), ("nodes",), _READ, "cordons"),
        *leases,
        *records,
        Rule(FLUX_GROUPS, ("*",), _READ, "suspensions, of every kind that there is"),
        Rule(("",), ("pods",), ("get",), "whether a holder's pod has ended", seldom=True),
        Rule(("",), ("namespaces",), ("get",), "the cluster's identity", names=("kube-system",), seldom=True),
    ]
    if role is Role.REPORT:
        return tuple(rules)
    rules += [
        Rule(("",), ("nodes",), ("patch",), "release cordons"),
        Rule(("coordination.k8s.io",), ("leases",), ("patch",), "take the lease over, free it", namespace=beside),
        Rule(FLUX_GROUPS, ("*",), ("patch",), "resume"),
        Rule(("events.k8s.io",), ("events",), ("create",), "tell on an object what happened to it", seldom=True),
        Rule(("",), ("configmaps",), ("create",), "the first hold or record", namespace=beside),
        Rule(("",), ("configmaps",), ("patch",), "holds and records", namespace=beside, names=(record,)),
    ]
    if role is Role.RECOVER:
        return tuple(rules)
    return (
        *rules,
        Rule(("coordination.k8s.io",), ("leases",), ("create",), "take the lease", namespace=beside),
        Rule(("",), ("secrets",), ("get", "list", "create", "delete"), "recovery points", namespace=beside),
        Rule(
            ("",),
            ("configmaps",),
            ("get",),
            "what deploys have applied before",
            namespace=beside,
            names=(default_set(profile.lease[1]),),
        ),
        Rule(("",), ("pods",), ("list",), "drain nodes"),
        Rule(("",), ("pods/eviction",), ("create",), "drain nodes"),
        Rule(("apps",), ("daemonsets",), ("get",), "tell which pods a drain leaves"),
        Rule(("apps",), _WORKLOADS, _READ, "follow what was applied", seldom=True),
        Rule(("batch",), ("jobs",), _READ, "follow what was applied", seldom=True),
        Rule(("",), ("pods",), ("get", "watch"), "say why a rollout fails", seldom=True),
        Rule(("",), ("pods/log",), ("get",), "the last lines of a container that fails", seldom=True),
        Rule(("",), ("events",), ("list",), "what happened to a pod that fails", seldom=True),
    )


def documents_for(role: Role, profile: Profile) -> list[dict[str, Any]]:
    """The role as RBAC objects: a ClusterRole, and a Role where a namespace is enough."""
    rules = rules_for(role, profile)
    name = f"fencectl-{role}"
    version = "rbac.authorization.k8s.io/v1"
    documents: list[dict[str, Any]] = []
    for namespace in dict.fromkeys(rule.namespace for rule in rules):
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        documents.append(
            {
                "apiVersion": version,
                "kind": "Role" if namespace else "ClusterRole",
                "metadata": metadata,
                "rules": [_as_rule(rule) for rule in rules if rule.namespace == namespace],
            }
        )
    return documents


def _as_rule(rule: Rule) -> dict[str, Any]:
    data: dict[str, Any] = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        data["resourceNames"] = list(rule.names)
    return {**data, "verbs": list(rule.verbs)}


def accesses_for(role: Role, profile: Profile, flux: Iterable[tuple[str, str]]) -> tuple[Access, ...]:
    """
    Every permission of a role, each once. `flux`: group and resource of each kind that this cluster has.

    NB: asked for kind by kind: a role that names each of them is as good as one with a `*`.
    """
    kinds = tuple(flux)
    found: dict[Access, bool] = {}
    for rule in rules_for(role, profile):
        for group, resource in kinds if rule.resources == ("*",) else _pairs(rule.groups, rule.resources):
            plain, _, subresource = resource.partition("/")
            for verb in rule.verbs:
                for name in rule.names or ("",):
                    access = Access(verb, group, plain, subresource, rule.namespace, name)
                    # NB: what is needed always for one purpose and seldom for another is needed.
                    found[access] = found.get(access, True) and rule.seldom
    return tuple(structs.replace(access, seldom=seldom) for access, seldom in found.items())


def _pairs(groups: Sequence[str], resources: Sequence[str]) -> list[tuple[str, str]]:
    return [(group, resource) for group in groups for resource in resources]
