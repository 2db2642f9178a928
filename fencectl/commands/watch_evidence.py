"""Ask about the holders again and again, but no more often than their answers are worth."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencectl.cluster.clock import Clock
from fencectl.cluster.ports import Getter
from fencectl.commands.reading import EVIDENCE_DEADLINE_S
from fencectl.core.assemble import Runs
from fencectl.core.facts import HolderEvidence
from fencectl.core.identity import HolderKind

if TYPE_CHECKING:
    from fencectl.evidence.gather import JobAsker

# An answer stands so long, unless there is another holder: a job that ends is seen half a minute later at most.
ASK_AGAIN_S = 30.0


class Asker:
    """Remembers what was answered about the holders of one cluster, and asks when that is old or not enough."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: Mapping[str, HolderEvidence] = {}
        self._asked_at_s = 0.0
        self._github: JobAsker | None = None

    def ask(self, runs: Runs, getter: Getter) -> Mapping[str, HolderEvidence]:
        """Return what is known about every holder of these runs."""
        subjects = runs.subjects
        asked_for = {subject.holder.identity for subject in subjects}
        now_s = self._clock.monotonic_s()
        if not asked_for <= self._answers.keys() or now_s - self._asked_at_s >= ASK_AGAIN_S:
            self._answers = {}
            self._asked_at_s = now_s
            if subjects:
                self._answers = self._gather(runs, getter)
        return self._answers

    def _gather(self, runs: Runs, getter: Getter) -> Mapping[str, HolderEvidence]:
        from fencectl.evidence.gather import gather
        from fencectl.evidence.machine import Machine

        if self._github is None and any(one.holder.kind is HolderKind.GITHUB for one in runs.subjects):
            from fencectl.evidence.github import GitHub, GitHubSettings

            # NB: one for as long as it is watched: what has not changed since then costs no request of the quota.
            self._github = GitHub(GitHubSettings.from_environment(os.environ))
        return gather(
            runs.subjects,
            environ=os.environ,
            machine=Machine(),
            reader=getter,
            clock=self._clock,
            deadline_s=EVIDENCE_DEADLINE_S,
            now=runs.observation.observed_at,
            github=self._github,
        )
