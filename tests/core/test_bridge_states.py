"""
States that the other tool leaves behind, as the API server shows them, and the independent reader of releases.

The builders here serve every test of the profile; what is tested here is the whole chain that one killed run leaves.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.bridge import read_bridge
from fencectl.core.found import Foreign, Found, Reading
from fencectl.core.observation import Observation, ReadCounts
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import GHCR_BRIDGE
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import NoRelease

Raw = dict[str, Any]

NOW = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
LONG_AGO = "2026-11-30T01:47:02.118204Z"
JUST_NOW = "2026-11-30T02:47:00.000000Z"
RUN = "4f2a91c07be3d855-gh18093344127.2-4711-31337"
NODE_RUN = "4f2a91c07be3d855-gh18093344127.2-4711-10101"
BATCH = "bootstrap-4f2a91c07be3-gh18093344127.2-4711-777"
OTHER_RUN = "9be1c04477aa02d1-gh18093399201.1-88-99"

PREFIX = "platform.devantler.tech/"
CHILD_OWNER = PREFIX + "ghcr-policy-handoff-owner"
PARENT_OWNER = PREFIX + "ghcr-policy-parent-owner"
NODE_OWNER = PREFIX + "ghcr-auth-drain-owner"
NODE_PHASE = PREFIX + "ghcr-auth-drain-phase"
NODE_JOURNAL = PREFIX + "ghcr-auth-drain-recovery"
RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
REVISION = "ab" * 32
UNSCHEDULABLE_TAINT = {
    "key": "node.kubernetes.io/unschedulable",
    "effect": "NoSchedule",
    "timeAdded": "2026-11-30T01:46:33Z",
}


class Missing:
    """Marks a field as not there, where null would be something else."""


MISSING = Missing()


def _there(values: Mapping[str, Any]) -> Raw:
    return {key: value for key, value in values.items() if value is not MISSING}


def _managed(manager: str, *paths: str) -> Raw:
    owned: Raw = {}
    for path in paths:
        at = owned
        for key in path.split("|"):
            at = at.setdefault(f"f:{key}", {})
    return {"manager": manager, "operation": "Update", "time": "2026-11-30T01:46:33Z", "fieldsV1": owned}


def lease(
    holder: Any = RUN,
    *,
    duration: Any = 120,
    acquired: Any = "2026-11-30T01:32:05.000000Z",
    renewed: Any = LONG_AGO,
    namespace: str = "flux-system",
    name: str = "ghcr-auth-refresh",
    **metadata: Any,
) -> Seen:
    raw: Raw = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "managedFields": [_managed("bridge", "spec|holderIdentity", "spec|renewTime")],
            **metadata,
        },
        "spec": _there(
            {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration,
                "acquireTime": acquired,
                "renewTime": renewed,
                "leaseTransitions": 3,
            }
        ),
    }
    return seen_as(raw, "coordination.k8s.io/v1", "Lease", "leases")


def kustomization(
    name: str,
    *,
    suspend: Any = True,
    reconcile: Any = MISSING,
    child_mark: Any = MISSING,
    parent_mark: Any = MISSING,
    namespace: str = "flux-system",
    annotations: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Seen:
    marks = {RECONCILE: reconcile, CHILD_OWNER: child_mark, PARENT_OWNER: parent_mark}
    raw: Raw = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": _there({"example.com/team": "a", **marks, **(annotations or {})}),
            "managedFields": [
                _managed("kubectl-patch", "spec|suspend", *(f"metadata|annotations|{key}" for key in marks))
            ],
            **metadata,
        },
        "spec": _there({"interval": "10m", "suspend": suspend}),
    }
    return seen_as(raw, "kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations")


def child(mark: Any = RUN, **changes: Any) -> Seen:
    return kustomization("infrastructure", child_mark=mark, **{"reconcile": "disabled", **changes})


def parent(mark: Any = RUN, **changes: Any) -> Seen:
    return kustomization("flux-system", parent_mark=mark, **changes)


def healthy(name: str, **changes: Any) -> Seen:
    return kustomization(name, **{"suspend": MISSING, **changes})


def node(
    name: str = "worker-1",
    *,
    mark: Any = NODE_RUN,
    phase: Any = "claimed",
    journal: Any = MISSING,
    unschedulable: Any = True,
    taints: Any = MISSING,
    deleting: Any = MISSING,
    uid: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Seen:
    marks = {NODE_OWNER: mark, NODE_PHASE: phase, NODE_JOURNAL: journal}
    raw: Raw = {
        "metadata": _there(
            {
                "name": name,
                "uid": uid or f"uid-{name}",
                "resourceVersion": "7",
                "labels": {"kubernetes.io/hostname": name},
                "annotations": _there({"example.com/team": "a", **marks, **(annotations or {})}),
                "deletionTimestamp": deleting,
                "managedFields": [
                    _managed("kubectl-cordon", "spec|unschedulable"),
                    _managed("kubectl-patch", *(f"metadata|annotations|{key}" for key in marks)),
                ],
            }
        ),
        "spec": _there({"podCIDR": "10.0.0.0/24", "unschedulable": unschedulable, "taints": taints}),
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return seen_as(raw, "v1", "Node", "nodes")


def journalled(name: str = "worker-1", owner: Any = NODE_RUN, **changes: Any) -> Seen:
    """A node whose journal and mark name the same owner; `changes` with a journal's key change the journal."""
    own = {key: changes.pop(key) for key in tuple(changes) if key in _JOURNAL_KEYS}
    text = journal_text(owner=owner, uid=f"uid-{name}", **own)
    return node(name, **{"mark": owner, "phase": "mutating", "journal": text, **changes})


_JOURNAL_KEYS = ("v", "jphase", "wasCordoned", "initialTaints", "desiredRevision", "juid")


def journal_text(**changes: Any) -> str:
    """A sound journal with changes; MISSING leaves a key out."""
    values: Raw = {
        "v": 1,
        "owner": NODE_RUN,
        "uid": "uid-worker-1",
        "phase": "rollback-safe",
        "desiredRevision": REVISION,
        "wasCordoned": 0,
        "initialTaints": [],
    }
    renamed = {{"jphase": "phase", "juid": "uid"}.get(key, key): value for key, value in changes.items()}
    return json.dumps(_there(values | renamed))


def seen_as(raw: Raw, api_version: str, kind: str, plural: str) -> Seen:
    metadata = raw["metadata"]
    return Seen(
        ObjectRef(api_version, kind, plural, metadata.get("namespace"), metadata["name"], metadata["uid"]), raw
    )


def observe(*objects: Seen, **more: Any) -> Observation:
    """One look that holds these objects; Flux is not counted, so that absent objects are not spoken of."""
    by_plural: dict[str, list[Seen]] = {"leases": [], "nodes": [], "flux": []}
    for seen in objects:
        by_plural[seen.ref.plural if seen.ref.plural in by_plural else "flux"].append(seen)
    values: Raw = {
        "context": "prod",
        "print_context": "prod",
        "kubeconfig": None,
        "server": "https://10.0.0.1:6443",
        "cluster_uid": "c-1",
        "observed_at": NOW,
        "skew_s": 0.1,
        "counts": ReadCounts(),
    }
    parts: Raw = {key: tuple(value) for key, value in by_plural.items()}
    return Observation(**(values | more | parts))


def read(*objects: Seen, **more: Any) -> Reading:
    return read_bridge(observe(*objects, **more))


def fences(*objects: Seen, **more: Any) -> dict[str, Found]:
    """What was found, by the object's name."""
    reading = read(*objects, **more)
    assert len({found.ref.display for found in reading.found}) == len(reading.found)
    return {found.ref.name: found for found in reading.found}


def only(*objects: Seen, **more: Any) -> Found:
    reading = read(*objects, **more)
    assert not reading.foreign
    (found,) = reading.found
    return found


def only_foreign(*objects: Seen, **more: Any) -> Foreign:
    reading = read(*objects, **more)
    assert not reading.found
    (foreign,) = reading.foreign
    return foreign


def why(found: Found) -> str:
    """The reason of a refusal; fails where there is a release."""
    assert found.release is None
    assert found.refusal is not None
    assert found.refusal.kind is NoRelease.REFUSED
    assert found.refusal.short == "REFUSED"
    assert found.after is None
    return found.refusal.why


def advice(found: Found) -> tuple[str, ...]:
    assert found.refusal is not None
    return found.refusal.advice


def patch_of(found: Found) -> GuardedPatch:
    assert found.refusal is None
    assert found.release is not None
    return found.release.patch


class RefusedError(Exception):
    """What the server answers with 422."""


def applied(patch: GuardedPatch, raw: Mapping[str, Any]) -> Raw:
    """
    Apply a patch by an independent implementation of RFC 6902.

    A `test` of null passes on a missing key of an existing map, as on the server: RFC 6902 knows no such thing.
    """
    document: Raw = copy.deepcopy(dict(raw))
    for op in patch.operations:
        if op["op"] == "test" and op["value"] is None:
            *steps, last = JsonPointer(op["path"]).parts
            at: Any = document
            for step in steps:
                if step not in at:
                    raise RefusedError(op["path"])
                at = at[step]
            if at.get(last) is not None:
                raise RefusedError(op["path"])
            continue
        try:
            document = jsonpatch.apply_patch(document, json.dumps([op]))
        except (jsonpatch.JsonPatchException, JsonPointerException) as refused:
            raise RefusedError(op["path"]) from refused
    return document


def changed(state: Seen, path: tuple[str, ...], value: Any) -> Raw:
    """The raw object with one field set, or taken away by MISSING."""
    raw: Raw = copy.deepcopy(dict(state.raw))
    at = raw
    for step in path[:-1]:
        at = at[step]
    if value is MISSING:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return raw


def chain(**changes: Any) -> list[Seen]:
    return [
        lease(**changes.get("lease", {})),
        parent(**changes.get("parent", {})),
        child(**changes.get("child", {})),
        node(**changes.get("node", {})),
    ]


def test_killed_run_leaves_four_fences_released_child_parent_node_lease() -> None:
    """The chain of one run is one holder's, in that tool's own order, the Lease last."""
    report = assemble(read_runs(observe(*chain()), GHCR_BRIDGE))
    (block,) = report.blocks
    assert [entry.object.display for entry in block.entries] == [
        "kustomization/flux-system/infrastructure",
        "kustomization/flux-system/flux-system",
        "node/worker-1",
        "lease/flux-system/ghcr-auth-refresh",
    ]
    assert [entry.order for entry in block.entries] == [1, 2, 3, 4]
    assert all(entry.release is not None for entry in block.entries)
    assert (block.holder.run, block.holder.attempt, block.holder.job) == (18093344127, 2, None)
    assert [(entry.now, entry.after) for entry in block.entries] == [
        ("suspended", "reconciles"),
        ("suspended", "reconciles"),
        ("cordoned", "stays cordoned"),
        ("taken", "free"),
    ]
    assert [entry.release.role for entry in block.entries if entry.release] == ["child", "parent", None, None]


def test_live_run_gets_no_release_for_any_of_its_fences() -> None:
    """A young heartbeat of the Lease speaks for child, parent and nodes of the same run, whatever their texts."""
    report = assemble(read_runs(observe(*chain(lease={"renewed": JUST_NOW})), GHCR_BRIDGE))
    assert [entry.refusal.kind for entry in report.held if entry.refusal] == [NoRelease.LIVE] * 4


def test_refused_node_keeps_the_lease_back_but_not_the_suspensions() -> None:
    """What waits behind a refusal has no command, though that tool would print one."""
    report = assemble(read_runs(observe(*chain(node={"phase": "mutating"})), GHCR_BRIDGE))
    kinds = [entry.refusal.kind if entry.refusal else None for entry in report.held]
    assert kinds == [None, None, NoRelease.REFUSED, NoRelease.WAITS]


def test_releases_run_in_order_leave_no_fence_behind() -> None:
    """Each patch applies to what was read, and a second look at the outcome finds nothing at all."""
    objects = chain(node={"taints": [UNSCHEDULABLE_TAINT]})
    after = []
    for found in read(*objects).found:
        ref = found.ref
        raw = applied(patch_of(found), found.seen.raw)
        after.append(seen_as(raw, ref.api_version, ref.kind, ref.plural))
    reading = read(*after)
    assert reading.found == ()
    # A claimed node stays cordoned, since nobody recorded whether it was before: somebody's, but no fence.
    assert [(item.seen.ref.name, item.now) for item in reading.foreign] == [("worker-1", "cordoned")]


def test_nothing_held_is_an_empty_reading() -> None:
    """A free Lease, healthy Kustomizations and a schedulable node with a phase left behind are no fences."""
    objects = [
        lease("", duration=1),
        healthy("infrastructure"),
        healthy("flux-system"),
        node(mark=MISSING, phase="mutating", unschedulable=MISSING),
    ]
    assert read(*objects, counts=ReadCounts(flux_kinds=13)) == Reading((), ())
