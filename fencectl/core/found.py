"""
What a profile's reader finds: a fence, who holds it, and what its own release would be.

`core.marks_reader` (profile `fencectl`) and `core.bridge` (profile `ghcr-bridge`) make these from an
observation; `core.assemble` adds what no single fence knows: the holder's verdict, the order, and who waits for
whom.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencectl.core.identity import Holder
from fencectl.core.journal import Journal
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceKind, Refusal, Release


class Heartbeat(msgspec.Struct, frozen=True):
    """A lease's times as they stand on it. `renewed_text` may be no time at all, then `renewed_at` is None."""

    renewed_text: str | None
    renewed_at: datetime | None
    duration_s: int | None


class Found(msgspec.Struct, frozen=True):
    """
    One fence on one object.

    `group` joins the fences of one run: its holder, or the outer run of a nested one, or the run that a lease was
    taken over to recover (None: no usable holder, the fence stands alone and is refused).
    `release`, or `refusal` where the fence cannot be released for its own sake; never both, never neither.
    `rank`: released strictly descending. `applier`: the Kustomization (namespace, name) that applies the
    object; `excluded`: the object carries `reconcile: disabled` because of this fence, so that its applier
    must not be released while it does. `journal`: as
    read, where it is this holder's own.
    """

    kind: FenceKind
    seen: Seen
    holder_text: str | None
    holder: Holder | None
    group: str | None
    rank: int
    seq: int
    now: str
    after: str | None
    release: Release | None
    refusal: Refusal | None
    since: datetime | None = None
    phase: str | None = None
    manager: str | None = None
    kept_because: str | None = None
    notes: tuple[str, ...] = ()
    heartbeat: Heartbeat | None = None
    applier: tuple[str, str] | None = None
    excluded: bool = False
    journal: Journal | None = None

    @property
    def ref(self) -> ObjectRef:
        """The object's name."""
        return self.seen.ref


class Foreign(msgspec.Struct, frozen=True):
    """A cordon, suspension or lease that carries no mark of the profile: shown, never released."""

    kind: FenceKind
    seen: Seen
    now: str
    since: datetime | None
    manager: str | None
    notes: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """Everything that a profile's reader found."""

    found: tuple[Found, ...]
    foreign: tuple[Foreign, ...]
