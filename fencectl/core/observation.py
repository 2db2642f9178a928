"""
What was read off one cluster for one report: raw objects, the server's clock, and what could not be read.

The reader (`fencectl.cluster.observe`) fills it; `fencectl.core.assemble` turns it into a report. Only objects
that can matter are in it: marked or cordoned nodes, marked or suspended Flux objects, the leases looked for.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencectl.core.refs import Seen


class Unreadable(msgspec.Struct, frozen=True):
    """
    One thing that could not be read, so that the report is incomplete.

    `what`: `nodes`, `kustomizations.kustomize.toolkit.fluxcd.io`, `lease/flux-system/x`, …; `why`: one clause
    such as "forbidden: user ci-reader may not `list` nodes (cluster scope)" or "no answer within 30s".
    """

    what: str
    why: str


class ReadCounts(msgspec.Struct, frozen=True):
    """How much was looked at: "no fence is held" says so, since silence is not evidence."""

    leases: int = 0
    nodes: int = 0
    flux_objects: int = 0
    flux_kinds: int = 0
    holds: int = 0


class Observation(msgspec.Struct, frozen=True):
    """
    One look at one cluster.

    `context` is the kubeconfig context that was used (None in-cluster), `print_context` the one that printed
    commands name (None: leave it out), `kubeconfig` the file to print behind `--kubeconfig` (None: none was
    given). `observed_at` is the API server's clock (its `Date` header); `skew_s` is ours minus its, None where
    it sent none. `leases`, `nodes`, `flux` and `records` are whole objects, managedFields included.
    """

    context: str | None
    print_context: str | None
    kubeconfig: str | None
    server: str
    cluster_uid: str | None
    observed_at: datetime
    skew_s: float | None
    leases: tuple[Seen, ...] = ()
    nodes: tuple[Seen, ...] = ()
    flux: tuple[Seen, ...] = ()
    records: tuple[Seen, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    counts: ReadCounts = ReadCounts()

    @property
    def label(self) -> str:
        """The name of the cluster in sentences: the context, else the server."""
        return self.print_context or self.context or self.server
