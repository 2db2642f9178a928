"""Kinds that are listed: Kubernetes' own by name, Flux's as discovered."""

from __future__ import annotations

from msgspec import Struct


class ListedKind(Struct, frozen=True):
    """One kind that can be listed."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group`, as RBAC and kubectl name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """The path of its version."""
        return f"{'/apis' if self.group else '/api'}/{self.api_version}"

    @property
    def path(self) -> str:
        """The path of the list over all namespaces."""
        return f"{self.root}/{self.plural}"


NODES = ListedKind("", "v1", "Node", "nodes", namespaced=False)
LEASES = ListedKind("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
CONFIGMAPS = ListedKind("", "v1", "ConfigMap", "configmaps", namespaced=True)
NAMESPACES = ListedKind("", "v1", "Namespace", "namespaces", namespaced=False)

LeaseName = tuple[str, str]
"""Namespace and name."""


def record_of(lease: LeaseName) -> LeaseName:
    """Name the ConfigMap that holds the record beside a lease."""
    namespace, name = lease
    return namespace, f"{name}-record"
