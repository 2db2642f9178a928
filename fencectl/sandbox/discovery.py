"""Discovery: plain and aggregated."""

from __future__ import annotations

import hashlib

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource, ResourceTable

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
AGGREGATED = "APIGroupDiscoveryList"
# What can only be created, and answers at once.
REVIEWS: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("authentication.k8s.io", "v1"): (("selfsubjectreviews", "SelfSubjectReview"),),
    ("authorization.k8s.io", "v1"): (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ),
}
_GROUP_ORDER = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
)
_SUBRESOURCE_KINDS = {
    "binding": ("Binding", ("create",), "", ""),
    "eviction": ("Eviction", ("create",), "policy", "v1"),
    "log": ("Pod", ("get",), "", ""),
    "scale": ("Scale", ("get", "patch", "update"), "autoscaling", "v1"),
    "status": ("", ("get", "patch", "update"), "", ""),
    "finalize": ("Namespace", ("update",), "", ""),
}


def groups(table: ResourceTable) -> dict[str, list[str]]:
    """Named groups and their versions, in the server's order."""
    found = {group: versions for group, versions in table.versions().items() if group}
    for group, version in REVIEWS:
        found.setdefault(group, [version])
    known = [group for group in _GROUP_ORDER if group in found]
    return {group: found[group] for group in (*known, *sorted(set(found) - set(known)))}


def api_versions(host: str) -> Obj:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    }


def api_group(group: str, versions: list[str]) -> Obj:
    spelled = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": spelled, "preferredVersion": spelled[0]}


def group_list(table: ResourceTable) -> Obj:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [api_group(group, versions) for group, versions in groups(table).items()],
    }


def _rows(resource: Resource) -> list[Obj]:
    row: Obj = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        # NB: custom kinds list their verbs in another order.
        "verbs": list(CUSTOM_VERBS if resource.custom else resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    row["storageVersionHash"] = _hash(resource)
    rows = [row]
    for name in sorted(resource.subresources):
        kind, verbs, group, version = _SUBRESOURCE_KINDS[name]
        sub: Obj = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        if group:
            sub["group"] = group
            sub["version"] = version
        sub["kind"] = kind or resource.kind
        sub["verbs"] = list(verbs)
        rows.append(sub)
    return rows


def _hash(resource: Resource) -> str:
    import base64

    digest = hashlib.sha256(f"{resource.group}/{resource.version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def resource_list(table: ResourceTable, *, group: str, version: str) -> Obj | None:
    """Return the APIResourceList of one version, or None where it does not exist."""
    rows = []
    for resource in sorted(table.all(), key=lambda resource: resource.plural):
        if (resource.group, resource.version) == (group, version):
            rows += _rows(resource)
    rows += [
        {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}
        for plural, kind in REVIEWS.get((group, version), ())
    ]
    if not rows:
        return None
    spelled = f"{group}/{version}" if group else version
    out: Obj = {"kind": "APIResourceList"}
    if group:
        out["apiVersion"] = "v1"
    out["groupVersion"] = spelled
    out["resources"] = rows
    return out


def aggregated(table: ResourceTable, *, core: bool) -> Obj:
    """Return the aggregated discovery of `/api` or `/apis`."""
    wanted = {"": ["v1"]} if core else groups(table)
    items = []
    for group, versions in wanted.items():
        spelled = []
        for version in versions:
            listed = resource_list(table, group=group, version=version)
            rows = listed["resources"] if listed else []
            is_custom = any(item.custom for item in table.all() if (item.group, item.version) == (group, version))
            # NB: only custom kinds spell their own group and version out.
            own = (group, version) if is_custom else ("", "")
            spelled.append({"version": version, "resources": _nested(rows, own=own), "freshness": "Current"})
        metadata: Obj = {"name": group} if group else {}
        items.append({"metadata": metadata, "versions": spelled})
    return {
        "kind": AGGREGATED,
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _nested(rows: list[Obj], *, own: tuple[str, str]) -> list[Obj]:
    out: dict[str, Obj] = {}
    for row in rows:
        plural, _, sub = row["name"].partition("/")
        kind = {"group": row.get("group", own[0]), "version": row.get("version", own[1]), "kind": row["kind"]}
        if sub:
            below = {"subresource": sub, "responseKind": kind, "verbs": row["verbs"]}
            out[plural].setdefault("subresources", []).append(below)
            continue
        made: Obj = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if row["namespaced"] else "Cluster",
            "singularResource": row["singularName"],
            "verbs": row["verbs"],
        }
        for name in ("shortNames", "categories"):
            if name in row:
                made[name] = row[name]
        out[plural] = made
    return list(out.values())


def paths(table: ResourceTable) -> list[str]:
    """Return what `/` lists."""
    found = ["/api", "/api/v1", "/apis"]
    for group, versions in groups(table).items():
        found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
    return sorted([*found, "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"])


VERSION: Obj = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": "v1.37.2",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.8",
    "compiler": "gc",
    "platform": "linux/amd64",
}
