"""The invented story as reports: a deploy is killed at 01:47 UTC and found an hour later, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from fencectl.core.evidence import Evidence, Judgement, Source, Strength, Verdict
from fencectl.core.identity import parse_holder
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.patches import GuardedPatch, annotation, drop, guard, put, seal
from fencectl.core.profiles import HOLDER, JOURNAL, RECONCILE
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease, Refusal, Release

VERBS = frozenset({"fences", "release", "demo"})
LATER_VERBS = VERBS | {"recover", "doctor", "deploy"}
NOW = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
DEAD = "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"
ALIVE = "9be1c04477aa02d1-gh18093399201.1-j51234890117-20d7bb3f"
CHECK = "gh run view 18093344127 --repo acme/platform --attempt 2"


def at(text: str) -> datetime:
    """A time of the story's day."""
    return datetime.fromisoformat(f"2026-11-30T{text}+00:00")


def node(name: str, uid: str = "0c6f1d1e-5b7a-4f5e-9a37-3f1f6f2f8d11") -> ObjectRef:
    return ObjectRef("v1", "Node", "nodes", None, name, uid)


def kustomization(name: str, uid: str = "2b9f6b8c-91de-4c39-bb0a-6a3d5b0f7c52") -> ObjectRef:
    group = "kustomize.toolkit.fluxcd.io/v1"
    return ObjectRef(group, "Kustomization", "kustomizations", "flux-system", name, uid)


def lease(uid: str = "a94d7c10-3e58-4b1f-8d64-2f0c9be5d7a6") -> ObjectRef:
    return ObjectRef("coordination.k8s.io/v1", "Lease", "leases", "flux-system", "fencectl-deploy", uid)


def journal(ref: ObjectRef, seq: int, placed: str, phase: str, prior: dict[str, Any], holder: str = DEAD) -> str:
    story = {
        "v": 1, "holder": holder, "uid": ref.uid, "seq": seq, "at": placed, "phase": phase, "prior": prior,
        "reason": "deploy 42",
    }  # fmt: skip
    return json.dumps(story, separators=(",", ":"))


def entry(
    ref: ObjectRef,
    order: int,
    now: str,
    after: str | None,
    since: datetime | None,
    *,
    kind: FenceKind,
    rank: int = 0,
    release: Release | None = None,
    refusal: Refusal | None = None,
    holder: str | None = DEAD,
    **more: Any,
) -> FenceEntry:
    return FenceEntry(
        kind=kind,
        object=ref,
        ours=more.pop("ours", True),
        holder=None if holder is None else parse_holder(holder),
        holder_text=holder,
        since=since,
        age_s=None if since is None else (more.pop("read_at", NOW) - since).total_seconds(),
        rank=rank,
        order=order,
        now=now,
        after=after if release is not None else None,
        manager=more.pop("manager", "fencectl"),
        kept=more.pop("kept", False),
        release=release,
        refusal=refusal,
        **more,
    )


def mark_patch(ref: ObjectRef, text: str, guards: Sequence[Any], changes: Sequence[Any]) -> GuardedPatch:
    marks = [guard(annotation(HOLDER), json.loads(text)["holder"]), guard(annotation(JOURNAL), text)]
    return seal(ref, [*marks, *guards, *changes, drop(annotation(HOLDER)), drop(annotation(JOURNAL))])


def cordon(name: str, order: int, placed: str, seq: int, *, before: bool, uid: str) -> FenceEntry:
    """A cordoned node; `before`: it was cordoned when the deploy came."""
    ref = node(name, uid)
    text = journal(ref, seq, f"2026-11-30T{placed}Z", "claimed", {"unschedulable": before, "taints": []})
    unschedulable = "/spec/unschedulable"
    patch = mark_patch(ref, text, [guard(unschedulable, True)], [] if before else [drop(unschedulable)])
    title = (
        "drop the mark; it was cordoned before, so it stays so"
        if before
        else "uncordon (it was schedulable before), drop the mark"
    )
    raw = {
        "metadata": {"name": name, "uid": uid, "annotations": {HOLDER: DEAD, JOURNAL: text}},
        "spec": {"unschedulable": True},
    }
    after = "stays cordoned" if before else "schedulable"
    return entry(
        ref, order, "cordoned", after, at(placed), kind=FenceKind.CORDON, rank=1000, release=Release(patch, title),
        phase="claimed", raw=raw,
    )  # fmt: skip


def suspension(name: str, order: int, placed: str, seq: int, *, role: str, uid: str, **more: Any) -> FenceEntry:
    """A suspended Kustomization that another one applies."""
    ref = kustomization(name, uid)
    text = journal(ref, seq, f"2026-11-30T{placed}Z", "suspended", {"suspend": None, "reconcile": None})
    patch = mark_patch(
        ref,
        text,
        [guard(annotation(RECONCILE), "disabled"), guard("/spec/suspend", True)],
        [drop("/spec/suspend"), drop(annotation(RECONCILE))],
    )
    raw = {
        "metadata": {
            "name": name,
            "uid": uid,
            "annotations": {HOLDER: DEAD, JOURNAL: text, RECONCILE: "disabled"},
        },
        "spec": {"suspend": True, "interval": "10m"},
    }
    return entry(
        ref, order, "suspended", "reconciles", at(placed), kind=FenceKind.SUSPENSION, rank=order,
        release=Release(patch, "resume, drop the mark", role), phase="suspended", raw=raw, **more,
    )  # fmt: skip


def held_lease(order: int, placed: str = "01:32:05") -> FenceEntry:
    ref = lease()
    patch = seal(
        ref,
        [
            guard("/spec/holderIdentity", DEAD),
            guard("/spec/renewTime", "2026-11-30T01:47:02.118204Z"),
            put("/spec/holderIdentity", "", present=True),
            put("/spec/leaseDurationSeconds", 1, present=True),
            drop(annotation(JOURNAL)),
        ],
    )
    raw = {
        "metadata": {"name": ref.name, "uid": ref.uid, "annotations": {JOURNAL: "{}"}},
        "spec": {
            "holderIdentity": DEAD,
            "renewTime": "2026-11-30T01:47:02.118204Z",
            "leaseDurationSeconds": 30,
        },
    }
    return entry(
        ref, order, "taken", "free", at(placed), kind=FenceKind.LEASE, release=Release(patch, "free it"), raw=raw
    )


def dead_entries() -> tuple[FenceEntry, ...]:
    return (
        cordon("worker-3", 1, "01:46:33", 5, before=True, uid="0c6f1d1e-5b7a-4f5e-9a37-3f1f6f2f8d11"),
        cordon("worker-2", 2, "01:46:31", 4, before=False, uid="7f0f4a0d-6c0e-4d0b-8f39-51c1c9a5b2e4"),
        suspension("infrastructure", 3, "01:32:09", 3, role="child", uid="2b9f6b8c-91de-4c39-bb0a-6a3d5b0f7c52"),
        suspension("flux-system", 4, "01:32:07", 2, role="parent", uid="e1c3a2f4-0d5b-4a7e-a9f1-77d2c1b60a93"),
        held_lease(5),
    )


HEARTBEAT = Evidence(
    Source.HEARTBEAT, "is the lease renewed?", "stands still: last 01:47:02Z, 1h00m ago, duration 30s", NOW
)
PROVEN = Judgement(
    Verdict.DEAD,
    Strength.PROVEN,
    "its job is completed on a GitHub-hosted runner and its heartbeat stands still",
    (
        Evidence(
            Source.JOB, "has the job ended?", "completed (cancelled) at 01:47:09Z, github-hosted runner", NOW
        ),
        HEARTBEAT,
    ),
    check=CHECK,
)
UNKNOWN = Judgement(
    Verdict.UNKNOWN,
    None,
    "GitHub was not asked, and a still heartbeat is no proof",
    (
        Evidence(Source.JOB, "has the job ended?", "not asked: no token (set GITHUB_TOKEN or GH_TOKEN)", NOW),
        HEARTBEAT,
    ),
    check=CHECK,
)


def foreign() -> tuple[FenceEntry, ...]:
    loki = ObjectRef("helm.toolkit.fluxcd.io/v2", "HelmRelease", "helmreleases", "monitoring", "loki", "e-1")
    no = Refusal(NoRelease.NOT_OURS, "it carries no mark: whoever placed it has to lift it", "not ours")
    day_3 = datetime(2026, 11, 26, 22, 0, tzinfo=UTC)
    day_12 = datetime(2026, 11, 18, 0, 0, tzinfo=UTC)
    return (
        entry(
            node("worker-7"), 0, "cordoned", None, day_3, kind=FenceKind.CORDON, refusal=no, holder=None,
            ours=False, manager="kubectl",
        ),
        entry(
            loki, 0, "suspended", None, day_12, kind=FenceKind.SUSPENSION, refusal=no, holder=None, ours=False,
            manager="flux",
        ),
    )  # fmt: skip


def block(entries: Sequence[FenceEntry], judgement: Judgement = PROVEN, holder: str = DEAD) -> HolderBlock:
    judged = tuple(replace(one, judgement=judgement) for one in entries)
    return HolderBlock(
        parse_holder(holder),
        judgement,
        judged,
        repository="acme/platform",
        workflow="deploy-prod.yaml",
        server_url="https://github.com",
        runner="github-hosted",
    )


def report(*blocks: HolderBlock, **more: Any) -> FenceReport:
    values: dict[str, Any] = {
        "context": "prod",
        "print_context": "prod",
        "kubeconfig": None,
        "server": "https://api.prod.example.com:6443",
        "cluster_uid": "6d0c1b4e-1111-4222-8333-944455556666",
        "profile": "fencectl",
        "observed_at": NOW,
        "skew_s": 0.4,
        "unreadable": (),
        "counts": ReadCounts(leases=1, nodes=12, flux_objects=48, flux_kinds=13, holds=0),
        "blocks": blocks,
        "not_ours": foreign(),
    }
    return FenceReport(**(values | more))


def dead() -> FenceReport:
    """Everything that a provably dead run left."""
    return report(block(dead_entries()))


def unknown() -> FenceReport:
    """The same without a token."""
    return report(block(dead_entries(), UNKNOWN))


def refusing(one: FenceEntry, kind: NoRelease, why: str, short: str, *advice: str) -> FenceEntry:
    return replace(one, release=None, after=None, refusal=Refusal(kind, why, short, advice))


def live() -> FenceReport:
    """Another run, at work."""
    read_at = at("02:55:36")
    judgement = Judgement(
        Verdict.LIVE,
        None,
        "its heartbeat is younger than the lease's duration",
        (
            Evidence(Source.JOB, "has the job ended?", "in_progress since 02:49:55Z", read_at),
            Evidence(
                Source.HEARTBEAT, "is the lease renewed?", "moves: last 02:55:34Z, 2s ago, duration 30s", read_at
            ),
        ),
        fresh=True,
        check="gh run view 18093399201 --repo acme/platform --attempt 1",
    )
    refusal = Refusal(NoRelease.LIVE, "its holder is live", "none: live")
    entries = [
        entry(
            ref, order, now, None, at(placed), kind=kind, rank=rank, refusal=refusal, holder=ALIVE,
            read_at=read_at,
        )
        for ref, order, now, placed, kind, rank in (
            (kustomization("apps"), 1, "suspended", "02:50:08", FenceKind.SUSPENSION, 2),
            (kustomization("flux-system"), 2, "suspended", "02:50:07", FenceKind.SUSPENSION, 1),
            (lease(), 3, "taken", "02:50:05", FenceKind.LEASE, 0),
        )
    ]  # fmt: skip
    return report(block(entries, judgement, ALIVE), observed_at=read_at, not_ours=())


def incomplete() -> FenceReport:
    """Nodes may not be listed."""
    whys = "nodes could not be read, so an earlier fence may be hidden"
    entries = [
        replace(refusing(one, NoRelease.INCOMPLETE, whys, "none: nodes"), order=order)
        for order, one in enumerate(dead_entries()[2:], 1)
    ]
    why = "forbidden: user ci-reader may not `list` nodes (cluster scope)"
    return report(
        block(entries),
        unreadable=(Unreadable("nodes", why),),
        counts=ReadCounts(leases=1, flux_objects=48, flux_kinds=13),
        not_ours=(),
    )


def nothing() -> FenceReport:
    """No fence is held."""
    return report()


def refused() -> FenceReport:
    """One node was left half changed."""
    first, *rest = dead_entries()
    advice = (
        "check that it is Ready, its kubelet version and its boot id 9d1f6c02…, and repair or replace it by hand",
    )
    why = "phase `mutating` since 01:46:40Z: its node command may be half done"
    waiting = "waits for node/worker-3, which was fenced after it and is still held"
    return report(
        block(
            [
                replace(refusing(first, NoRelease.REFUSED, why, "REFUSED", *advice), phase="mutating"),
                *(refusing(one, NoRelease.WAITS, waiting, "waits for 1") for one in rest),
            ]
        )
    )


def kept() -> FenceReport:
    """Two suspensions were kept after a rollback."""
    because = "Flux would apply main@sha1:9be1c044 again"
    entries = [
        replace(one, order=order, kept=True, kept_because=because, phase="kept")
        for order, one in enumerate(dead_entries()[2:4], 1)
    ]
    return report(block(entries), not_ours=())


def mixed() -> FenceReport:
    """Two holders, a mark without an owner, a hold and a record, and a clock that is wrong."""
    hold = ObjectRef("v1", "ConfigMap", "configmaps", "flux-system", "fencectl-deploy-record", "c-1")
    by_hand = Refusal(NoRelease.NOT_A_PATCH, "a hold incident is lifted by a person, not by a patch", "none: hold")
    moving = live().blocks[0]
    moved = replace(moving, entries=tuple(replace(one, order=one.order + 5) for one in moving.entries))
    return report(
        block(dead_entries(), UNKNOWN),
        moved,
        unowned=(
            entry(
                node("worker-5"), 9, "cordoned", None, None, kind=FenceKind.CORDON, holder=None,
                refusal=Refusal(
                    NoRelease.REFUSED, "the mark has a journal but no owner", "REFUSED",
                    ("find out who wrote it, then correct the object by hand",),
                ),
            ),
        ),
        holds=(
            entry(
                hold, 10, "hold incident", None, at("02:33:31"), kind=FenceKind.HOLD, refusal=by_hand,
                holder="ops", notes=("reason: INC-2291 checkout", "by ops"),
            ),
        ),
        findings=(
            entry(
                hold, 0, "record 41", None, at("01:00:00"), kind=FenceKind.RECORD, holder=DEAD,
                refusal=Refusal(NoRelease.NOT_A_PATCH, "a record blocks nothing and needs no release", "none"),
                notes=("phase `restoring`, no outcome was written",),
            ),
        ),
        skew_s=7.2,
        notes=("this machine's clock is 7s ahead of the API server's; ages are by the server's",),
    )  # fmt: skip
