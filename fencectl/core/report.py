"""
The report: every fence held on one cluster, in release order, with its release or the reason why there is none.

Plain data. `core.assemble` makes it, the renderers of `fencectl.report` show it; the rules of order, verdict
and refusal are settled before it exists.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencectl.core.evidence import Judgement, Verdict
from fencectl.core.identity import Holder
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import ObjectRef, Raw


class FenceKind(StrEnum):
    """The closed set of fences, and `record` for what a record tells beside them."""

    LEASE = "lease"
    SUSPENSION = "suspension"
    CORDON = "cordon"
    HOLD = "hold"
    RECORD = "record"


class NoRelease(StrEnum):
    """Why a fence has no release command. Each comes with a sentence of its own in `Refusal.why`."""

    LIVE = "live"  # its holder lives
    FRESH = "fresh"  # its heartbeat is younger than its duration
    INCOMPLETE = "incomplete"  # something could not be read
    REFUSED = "refused"  # the fence itself cannot be released by a patch
    WAITS = "waits"  # behind a refusal, or behind a child that Flux would orphan
    NOT_OURS = "not-ours"  # a foreign cordon, suspension or lease
    NOT_A_PATCH = "not-a-patch"  # holds and records: lifted by their own verbs


class Refusal(msgspec.Struct, frozen=True):
    """
    Why there is no release command.

    `why`: a sentence without a full stop, whole, for below the row and for JSON. `short`: for the column of the
    table, at most 15 cells: `none: live`, `none: nodes`, `REFUSED`, `waits for 1`. `advice`: further lines, such
    as what to check before the fence can go.
    """

    kind: NoRelease
    why: str
    short: str
    advice: tuple[str, ...] = ()


class Release(msgspec.Struct, frozen=True):
    """
    The release of one fence: the very patch that would be sent.

    `title`: what it does, such as "uncordon (it was schedulable before), drop the mark". `role`: `child` or
    `parent` for chained suspensions. `last_after`: set on a lease that goes last.
    """

    patch: GuardedPatch
    title: str
    role: str | None = None


class FenceEntry(msgspec.Struct, frozen=True):
    """
    One fence in a report.

    `order`: unique, 1 to n over all holders, the order of release; 0 for what is not counted in `held`.
    `holder_text` is the mark's text as it stands on the object, hostile until escaped; None where there is no
    mark. `now`: `cordoned`, `schedulable`, `suspended`, `reconciles`, `taken`, `held`, …; `after`: what will be
    so after the release. `since`: None where nobody wrote it down. `manager`: the field manager that last
    wrote the fenced field. `kept_because`: what Flux would apply, where the fence was kept on purpose. `notes`:
    warnings of the fence, one clause each. `raw`: the object as it was read, for `--explain`.
    Exactly one of `release` and `refusal` is set. `way_out`: a release that is refused by the order and that a
    person may still choose knowingly, by naming both the fence and its holder.
    """

    kind: FenceKind
    object: ObjectRef
    ours: bool
    holder: Holder | None
    holder_text: str | None
    since: datetime | None
    age_s: float | None
    rank: int
    order: int
    now: str
    after: str | None
    manager: str | None
    kept: bool
    release: Release | None
    refusal: Refusal | None
    judgement: Judgement | None = None
    phase: str | None = None
    kept_because: str | None = None
    notes: tuple[str, ...] = ()
    way_out: Release | None = None
    raw: Raw = {}

    @property
    def is_claim(self) -> bool:
        """Whether it is the hold that a failed restore has left."""
        return self.kind is FenceKind.HOLD and self.now.startswith("claim ")

    @property
    def hold_words(self) -> tuple[str, ...]:
        """How `hold lift` names a hold: its type, and the lease of its record where that is not the usual one."""
        name = self.now.removeprefix("hold ").replace(" ", "-")
        lease = (self.object.namespace or "", self.object.name.removesuffix("-record"))
        return (name,) if lease == FENCECTL.lease else (name, "--lease", "/".join(lease))


class HolderBlock(msgspec.Struct, frozen=True):
    """
    Everything that one holder (a run with its nested runs) holds, in release order.

    `repository`, `workflow`, `actor`, `server_url`, `runner`: from the journal where it tells, hostile text until
    escaped. `lease`, `lease_duration_s`: under which lease (namespace, name) it fenced, as its journals say.
    `lease_token`: the highest token of that lease that its journals know, 0 where none does. `key`: what joins
    its fences. `recoverer`: the judgement on whoever took its lease over to recover it.
    """

    holder: Holder
    judgement: Judgement
    entries: tuple[FenceEntry, ...]
    repository: str | None = None
    workflow: str | None = None
    server_url: str | None = None
    runner: str | None = None
    actor: str | None = None
    lease: tuple[str, str] | None = None
    lease_duration_s: float | None = None
    lease_token: int = 0
    key: str = ""
    recoverer: Judgement | None = None

    @property
    def title(self) -> str:
        """Who it is: `run R attempt A job J`, `HOST pid N`, and so on."""
        return self.holder.title

    @property
    def refused(self) -> tuple[FenceEntry, ...]:
        """The fences that are refused for their own sake."""
        return tuple(e for e in self.entries if e.refusal is not None and e.refusal.kind is NoRelease.REFUSED)


class FenceReport(msgspec.Struct, frozen=True):
    """
    The report on one cluster.

    `blocks`: holders, dead (proven) first, then dead (presumed), unknown, live. `unowned`: fences that name no
    usable holder (a journal without an owner, an empty mark), each refused. `holds`: holds and claims.
    `findings`: records whose run is over or unknown; not counted, block nothing. `not_ours`: foreign cordons,
    suspensions and leases; not counted, never with a command. `notes`: sentences on the report as a whole, such
    as a skew of the clock. `passed_over`: claims that do not stop whoever looks, and still keep an unattended
    recovery back.
    """

    context: str | None
    print_context: str | None
    kubeconfig: str | None
    server: str
    cluster_uid: str | None
    profile: str
    observed_at: datetime
    skew_s: float | None
    unreadable: tuple[Unreadable, ...]
    counts: ReadCounts
    blocks: tuple[HolderBlock, ...] = ()
    unowned: tuple[FenceEntry, ...] = ()
    holds: tuple[FenceEntry, ...] = ()
    findings: tuple[FenceEntry, ...] = ()
    not_ours: tuple[FenceEntry, ...] = ()
    notes: tuple[str, ...] = ()
    passed_over: tuple[FenceEntry, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything was read. Where not, nothing may sound like "no fence is held"."""
        return not self.unreadable

    @property
    def held(self) -> tuple[FenceEntry, ...]:
        """Every fence that is held, in the order of `order`."""
        chained = [entry for block in self.blocks for entry in block.entries]
        return tuple(sorted([*chained, *self.unowned, *self.holds], key=lambda entry: entry.order))

    @property
    def releasable(self) -> tuple[FenceEntry, ...]:
        """Every fence with a release command, in release order."""
        return tuple(entry for entry in self.held if entry.release is not None)

    @property
    def label(self) -> str:
        """The name of the cluster in sentences."""
        return self.print_context or self.context or self.server

    def blocks_with(self, verdict: Verdict) -> tuple[HolderBlock, ...]:
        """The holders of one verdict."""
        return tuple(block for block in self.blocks if block.judgement.verdict is verdict)
