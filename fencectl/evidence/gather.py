"""
Everything that can be asked about holders, asked once for each and within one bound.

GitHub and the pods answer side by side, while the processes are looked at. What did not answer in time is a fact
of its own: unknown, with why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from fencectl.core.facts import Fact, HolderEvidence, JobFact, State, Subject
from fencectl.core.identity import HolderKind
from fencectl.core.reader import Reader
from fencectl.evidence.machine import Machine
from fencectl.evidence.pod import ask_pod, question_about, recorded_pod
from fencectl.evidence.process import ask_process

PARALLEL_PODS = 4
_LAST_WORDS_S = 0.5  # for those who keep the bound themselves, and then still say what they did not get


class Clock(Protocol):
    """What is needed to know about time."""

    def wall(self) -> datetime:
        """Return the wall clock, aware and in UTC."""
        ...


class JobAsker(Protocol):
    """Whoever asks GitHub; `evidence.github.GitHub` is one, and remembers what has not changed."""

    def ask(self, subjects: Sequence[Subject], *, now: datetime, deadline_s: float) -> dict[str, JobFact]:
        """Return a fact for each holder that names a run, by its identity."""
        ...


def gather(
    subjects: Iterable[Subject],
    *,
    environ: Mapping[str, str],
    machine: Machine,
    reader: Reader | None,
    clock: Clock,
    deadline_s: float,
    now: datetime | None = None,
    github: JobAsker | None = None,
) -> dict[str, HolderEvidence]:
    """
    Ask about every holder once; by its identity.

    `reader`: of the cluster that is reported; None where it is not to be asked about pods. `now`: the API server's
    clock, where it is known better than from ours. `github`: to be given where it is asked again and again, else
    made from `environ` when there is somebody to ask about.
    """
    holders = _fullest(subjects)
    at = now if now is not None else clock.wall()
    runs = {name: subject for name, subject in holders.items() if subject.holder.kind is HolderKind.GITHUB}
    pods = {name: subject for name, subject in holders.items() if recorded_pod(subject) is not None}
    answers = _Answers()
    tasks: list[Callable[[], None]] = []
    if runs:
        asker = github if github is not None else _github(environ)
        tasks.append(lambda: answers.add_jobs(asker.ask(list(runs.values()), now=at, deadline_s=deadline_s)))
    if pods and reader is not None:
        waiting = list(pods.items())
        tasks += [
            lambda: answers.ask_pods(waiting, reader, at, deadline_s)
            for _ in range(min(PARALLEL_PODS, len(waiting)))
        ]
    running = _Running(tasks)
    processes = {name: ask_process(subject, machine, at=at) for name, subject in holders.items()}
    running.wait(deadline_s + _LAST_WORDS_S)
    jobs, seen_pods = answers.so_far()
    late = f"no answer within {deadline_s:g}s"
    return {
        name: HolderEvidence(
            job=jobs.get(name) or (_no_job(at, late) if name in runs else None),
            process=processes[name],
            pod=seen_pods.get(name)
            or (_no_pod(subject, at, late if reader else "not asked") if name in pods else None),
        )
        for name, subject in holders.items()
    }


def _fullest(subjects: Iterable[Subject]) -> dict[str, Subject]:
    """One subject for each holder: of several the one whose own journal tells most."""
    chosen: dict[str, Subject] = {}
    for subject in subjects:
        name = subject.holder.identity
        if name not in chosen or _fullness(subject) > _fullness(chosen[name]):
            chosen[name] = subject
    return chosen


def _fullness(subject: Subject) -> tuple[bool, bool, bool]:
    journal = subject.journal
    own = journal is not None and journal.holder == subject.holder.identity
    return own, own and journal is not None and journal.details is not None, subject.repository is not None


def _github(environ: Mapping[str, str]) -> JobAsker:
    # NB: brings in http.client and TLS, which most looks at a cluster do not need a second time.
    from fencectl.evidence.github import GitHub, GitHubSettings

    return GitHub(GitHubSettings.from_environment(environ))


class _Answers:
    """What was answered so far; late answers change nothing that was handed out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, JobFact] = {}
        self._pods: dict[str, Fact] = {}

    def add_jobs(self, jobs: Mapping[str, JobFact]) -> None:
        with self._lock:
            self._jobs.update(jobs)

    def ask_pods(
        self, waiting: list[tuple[str, Subject]], reader: Reader, at: datetime, deadline_s: float
    ) -> None:
        while True:
            with self._lock:
                if not waiting:
                    return
                name, subject = waiting.pop()
            fact = ask_pod(subject, reader, at=at, deadline_s=deadline_s)
            with self._lock:
                if fact is not None:
                    self._pods[name] = fact

    def so_far(self) -> tuple[dict[str, JobFact], dict[str, Fact]]:
        with self._lock:
            return dict(self._jobs), dict(self._pods)


class _Running:
    """Tasks, each in a daemon thread: one that hangs can delay neither the report nor the exit."""

    def __init__(self, tasks: Sequence[Callable[[], None]]) -> None:
        self._changed = threading.Condition()
        self._left = len(tasks)
        self._failure: BaseException | None = None
        for task in tasks:
            threading.Thread(target=self._run, args=(task,), name="fencectl-evidence", daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        """Wait for all, or for so long; what a task raises is raised here."""
        with self._changed:
            self._changed.wait_for(lambda: self._left == 0 or self._failure is not None, timeout=timeout_s)
            if self._failure is not None:
                raise self._failure

    def _run(self, task: Callable[[], None]) -> None:
        failure: BaseException | None = None
        try:
            task()
        except BaseException as raised:  # noqa: BLE001 (handed to the thread that waits)
            failure = raised
        with self._changed:
            self._left -= 1
            self._failure = self._failure or failure
            self._changed.notify_all()


def _no_job(at: datetime, why: str) -> JobFact:
    return JobFact(State.UNKNOWN, "has the job ended?", why, at)


def _no_pod(subject: Subject, at: datetime, why: str) -> Fact:
    recorded = recorded_pod(subject)
    return Fact(State.UNKNOWN, question_about(recorded) if recorded else "has the container ended?", why, at)
