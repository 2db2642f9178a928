"""
A deploy as far as its fences go, played step by step in a test: lease, suspensions, nodes, each through the real
patches. What it does not release is what a killed deploy leaves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fencectl.cluster.transport import Transport
from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown
from fencectl.core.errors import FencectlError
from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal, LeaseRef, Phase
from fencectl.core.lease import LeaseTerms, acquire_lease, new_lease
from fencectl.core.marks import read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import (
    CannotPlace,
    Placed,
    place_cordon,
    place_suspension,
    rewrite_journal,
)
from fencectl.core.refs import ObjectRef, Seen, dig

LEASE_KIND = ("coordination.k8s.io/v1", "Lease", "leases")
KUSTOMIZATION_KIND = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations")
NODE_KIND = ("v1", "Node", "nodes")


class NotFencedError(FencectlError):
    """A fence could not be placed."""


@dataclass(slots=True)
class PlayedDeploy:
    """
    One run that fences; all of it stays, as after a kill.

    `holder`: its identity. `lease`: namespace and name. `now`: its clock, aware UTC. `story`: further fields of
    the journal, such as `repository`.
    """

    door: Transport
    holder: str
    lease: tuple[str, str]
    now: datetime
    duration_s: int = 30
    story: dict[str, Any] = field(default_factory=dict)
    token: int = 0
    _lease_ref: LeaseRef | None = None
    _seq: int = 0

    def take_lease(self) -> int:
        """
        Create the lease, or take it where it is free; return the fencing token.

        Raises NotFencedError where another holder has it; nothing was changed then.
        """
        namespace, name = self.lease
        seen = self._read(LEASE_KIND, namespace, name)
        terms = LeaseTerms(self.holder, self.duration_s, self.now, self._journal(0))
        if seen is None:
            collection = f"/apis/{LEASE_KIND[0]}/namespaces/{namespace}/leases"
            raw = self._applied(create(self.door, collection, new_lease(namespace, name, terms)))
        else:
            taken = acquire_lease(seen, terms)
            if isinstance(taken, CannotPlace):
                other = parse_holder(str(dig(seen.raw, "spec", "holderIdentity")))
                raise NotFencedError(f"lease/{namespace}/{name} is held by {other.title}")
            raw = self._applied(send(self.door, taken.patch))
        self.token = dig(raw, "spec", "leaseTransitions")
        self._lease_ref = LeaseRef(namespace, name, dig(raw, "metadata", "uid"), self.duration_s, self.token)
        return self.token

    def suspend(self, namespace: str, name: str, *, rank: int) -> Seen:
        """Suspend a Kustomization; `rank` is 1 plus the number of its fenced ancestors."""
        seen = self._must_read(KUSTOMIZATION_KIND, namespace, name)
        return self._send(seen, self._placed(place_suspension(seen, self._journal(rank))).patch)

    def cordon(self, name: str) -> Seen:
        """Claim a node and cordon it."""
        seen = self._must_read(NODE_KIND, None, name)
        return self._send(seen, self._placed(place_cordon(seen, self._journal(1000))).patch)

    def enter_phase(self, fenced: Seen, phase: Phase, *, reason: str | None = None) -> Seen:
        """Write another phase into the journal of a fence."""
        mark = read_mark(fenced)
        if mark is None or mark.journal is None:
            raise NotFencedError(f"{fenced.ref.display} carries no mark")
        story = mark.journal.with_phase(phase, at=self.now, reason=reason)
        return self._send(fenced, rewrite_journal(fenced, mark.journal, story))

    def _journal(self, rank: int) -> Journal:
        self._seq += 1
        # The details are on the lease alone, where a report looks for them once.
        story = {key: value for key, value in self.story.items() if rank == 0 or key != "details"}
        return Journal(
            holder=self.holder,
            uid="",
            seq=self._seq,
            rank=rank,
            at=self.now,
            phase=Phase.HELD,
            lease=self._lease_ref,
            **story,
        )

    def _send(self, seen: Seen, patch: GuardedPatch) -> Seen:
        return Seen(seen.ref, self._applied(send(self.door, patch)))

    @staticmethod
    def _placed(result: Placed | CannotPlace) -> Placed:
        if isinstance(result, CannotPlace):
            raise NotFencedError(f"it cannot be fenced: {result.why}")
        return result

    @staticmethod
    def _applied(answer: Answer) -> Any:
        match answer:
            case Applied(raw):
                return raw
            case Refused(why, status, detail):
                raise NotFencedError(f"the server refused the patch ({status}, {why.value})", reason=detail)
            case Unknown(detail):
                raise NotFencedError("nobody can say whether the patch was applied", reason=detail)

    def _must_read(self, kind: tuple[str, str, str], namespace: str | None, name: str) -> Seen:
        seen = self._read(kind, namespace, name)
        if seen is None:
            raise NotFencedError(f"there is no {kind[1].lower()} `{name}`")
        return seen

    def _read(self, kind: tuple[str, str, str], namespace: str | None, name: str) -> Seen | None:
        api_version, kind_name, plural = kind
        answer = self.door.get(ObjectRef(api_version, kind_name, plural, namespace, name, "").path)
        if answer.status == 404:
            return None
        raw = json.loads(answer.body)
        if not answer.ok:
            raise NotFencedError(f"{kind_name.lower()} `{name}` could not be read: {answer.status}")
        uid = str(dig(raw, "metadata", "uid"))
        return Seen(ObjectRef(api_version, kind_name, plural, namespace, name, uid), raw)
