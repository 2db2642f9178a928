"""From options to reports: connect to each cluster that was asked for, look once, assemble. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from fencectl.cluster.clock import Clock, SystemClock
from fencectl.cluster.kubeconfig import Connection, resolve as resolve_connection
from fencectl.cluster.observe import observe
from fencectl.cluster.ports import Getter
from fencectl.commands.common import Effective, TargetSettings
from fencectl.core.assemble import Runs, assemble, read_runs
from fencectl.core.errors import ExitCode, NotReadableError, worst
from fencectl.core.facts import HolderEvidence
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.report import FenceReport

if TYPE_CHECKING:
    from fencectl.cluster.transport import Transport

# How long one whole look at a cluster may take, unless --request-timeout says otherwise.
LOOK_DEADLINE_S = 30.0
# How long all look-ups about holders together may take: the report must not wait longer for a proof than it did
# for the cluster.
EVIDENCE_DEADLINE_S = 10.0


class Subject(msgspec.Struct, frozen=True):
    """One cluster to look at: its settings, and the connection that its kubeconfig gives."""

    settings: TargetSettings
    connection: Connection
    deadline_s: float
    kubeconfig: str | None

    @contextmanager
    def opened(self, clock: Clock) -> Iterator[Transport]:
        """Open the way to the cluster, and close it behind."""
        transport = self.connection.open(clock=clock, request_timeout_s=self.deadline_s)
        try:
            yield transport
        finally:
            transport.close()

    def runs(self, getter: Getter, clock: Clock, *, vouched: Vouched = NOTHING_VOUCHED) -> Runs:
        """
        Look once and join the fences by run; nobody is asked about the holders yet.

        Raises NotReadableError where nothing at all could be read.
        """
        profile = self.settings.profile
        observation = observe(
            getter,
            profile=profile,
            clock=clock,
            deadline_s=self.deadline_s,
            server=self.connection.server,
            context=self.connection.context_flag,
            print_context=self.settings.print_context or self.connection.context_flag,
            kubeconfig=self.kubeconfig,
        )
        return read_runs(observation, profile, repository=self.settings.repository, vouched=vouched)

    def look(
        self,
        getter: Getter,
        clock: Clock,
        *,
        vouched: Vouched = NOTHING_VOUCHED,
        unchanged_for_s: Mapping[tuple[str, str], float] = MappingProxyType({}),
    ) -> Look:
        """Look once, ask about every holder once, and assemble the report."""
        runs = self.runs(getter, clock, vouched=vouched)
        evidence = ask_about(runs, getter, clock) if runs.subjects else {}
        return Look(runs, assemble(runs, evidence=evidence, unchanged_for_s=unchanged_for_s))


class Look(msgspec.Struct, frozen=True):
    """One look: what was found, and the report on it."""

    runs: Runs
    report: FenceReport


def ask_about(runs: Runs, getter: Getter, clock: Clock) -> Mapping[str, HolderEvidence]:
    """Ask GitHub, this machine and the cluster's pods about every holder, once each."""
    from fencectl.evidence.gather import gather
    from fencectl.evidence.machine import Machine

    return gather(
        runs.subjects,
        environ=os.environ,
        machine=Machine(),
        reader=getter,
        clock=clock,
        deadline_s=EVIDENCE_DEADLINE_S,
        now=runs.observation.observed_at,
    )


class Looks(msgspec.Struct, frozen=True):
    """
    What came of looking at every cluster that was asked for.

    `failures`: clusters that could not be read at all; with one cluster the failure is raised instead.
    """

    reports: tuple[FenceReport, ...]
    failures: tuple[NotReadableError, ...]

    @property
    def code(self) -> ExitCode:
        """`INCOMPLETE` if anything could not be read, else `OK`."""
        whole = all(report.complete for report in self.reports) and not self.failures
        return ExitCode.OK if whole else ExitCode.INCOMPLETE

    def code_when_held(self, older_than_s: float | None = None) -> ExitCode:
        """
        As `code`, and `FENCES_FOUND` where a fence is held.

        `older_than_s`: only one that has been held for longer counts, or for nobody knows how long.
        """
        held = [entry for report in self.reports for entry in report.held]
        if older_than_s is not None:
            held = [entry for entry in held if entry.age_s is None or entry.age_s > older_than_s]
        return worst((self.code, ExitCode.FENCES_FOUND if held else ExitCode.OK))


def subjects(effective: Effective) -> tuple[Subject, ...]:
    """
    Resolve every cluster before the first request.

    Raises UsageError for the first kubeconfig problem: nothing was read then, from no cluster.
    """
    return tuple(
        Subject(
            target,
            resolve_connection(effective.kubeconfig, target.context, os.environ, Path.home()),
            effective.request_timeout_s or LOOK_DEADLINE_S,
            effective.kubeconfig,
        )
        for target in effective.targets
    )


def look_at_all(effective: Effective) -> Looks:
    """
    Look at every cluster, one after the other.

    Raises NotReadableError where the only cluster could not be read; with several, what was read is kept and the
    failures are told beside it.
    """
    clock = SystemClock()
    reports: list[FenceReport] = []
    failures: list[NotReadableError] = []
    asked_for = subjects(effective)
    for subject in asked_for:
        try:
            with subject.opened(clock) as transport:
                reports.append(subject.look(transport, clock).report)
        except NotReadableError as failure:
            if len(asked_for) == 1:
                raise
            failures.append(failure)
    return Looks(tuple(reports), tuple(failures))
