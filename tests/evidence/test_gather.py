"""
All evidence at once: each holder asked about once, side by side, within one bound.

Aspects: who is asked about whom · one look-up however many fences · the fullest journal counts · what hangs · what
breaks · nothing imported that is not needed · from the answers to the verdict.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencectl.cluster.kubeconfig import resolve
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.facts import HolderEvidence, JobFact, State, Subject
from fencectl.core.found import Heartbeat
from fencectl.core.times import micro_time
from fencectl.core.verdict import HolderFacts, judge
from fencectl.evidence.gather import gather
from fencectl.sandbox import Sandbox
from tests.evidence.machines import GITHUB, LOCAL, POD, Tree, journalled, recorded, subject
from tests.support.clusters import Cluster, make_namespace
from tests.support.github import LoopbackGitHub
from tests.support.objects import NOW, before

Raw = dict[str, Any]
UID = "7d6c1a52-3f0e-4b8b-9a55-2f8f7a1c9e01"
SOON_S = 20.0
"""A bound that no test reaches."""


class Still:
    """A clock that stands."""

    def wall(self) -> datetime:
        return NOW


@dataclass(frozen=True)
class Said:
    status: int = 403
    body: bytes = b"{}"


@dataclass
class Pods:
    """A cluster that answers everything alike. `hold`: not before this is set."""

    hold: threading.Event | None = None
    broken: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def get(self, path: str, *, deadline_s: float | None = None) -> Said:
        self.asked.append(path)
        if self.hold is not None:
            self.hold.wait(60)
        if self.broken is not None:
            raise self.broken
        return Said()


@dataclass
class Jobs:
    """Whoever asks GitHub."""

    hold: threading.Event | None = None
    broken: Exception | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def ask(self, subjects: Sequence[Subject], *, now: datetime, deadline_s: float) -> dict[str, JobFact]:
        self.asked.append(tuple(one.holder.identity for one in subjects))
        if self.hold is not None:
            self.hold.wait(60)
        if self.broken is not None:
            raise self.broken
        return {one.holder.identity: JobFact(State.ENDED, "job?", "completed", now) for one in subjects}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def look(tree: Tree, *subjects: Subject, **options: Any) -> dict[str, HolderEvidence]:
    given: dict[str, Any] = {
        "environ": {},
        "reader": Pods(),
        "clock": Still(),
        "deadline_s": SOON_S,
        "github": Jobs(),
    }
    return gather(subjects, machine=tree.machine(), **(given | options))


def test_each_holder_is_asked_about_where_it_runs(tree: Tree) -> None:
    """A run at GitHub, a pod at its cluster, a process here; and nobody about whom nothing can be asked."""
    pods, jobs = Pods(), Jobs()
    found = look(
        tree, subject({}, identity=GITHUB), subject({}, identity=POD), subject(recorded()),
        subject({}, identity="someone"), reader=pods, github=jobs,
    )  # fmt: skip
    asked = {
        name: (one.job is not None, one.process is not None, one.pod is not None) for name, one in found.items()
    }
    assert asked == {
        GITHUB: (True, False, False),
        POD: (False, False, True),
        LOCAL: (False, True, False),
        "someone": (False, False, False),
    }
    assert jobs.asked == [(GITHUB,)]
    assert pods.asked == ["/api/v1/namespaces/ci/pods/deployer-0"]


def test_runner_in_a_pod_of_this_machine_is_asked_about_everywhere(tree: Tree) -> None:
    """Whatever it recorded is used."""
    details = recorded(pod_namespace="ci", pod_name="runner-0", pod_uid=UID)
    found = look(tree, subject(details, identity=GITHUB))[GITHUB]
    assert found.job is not None
    assert found.process is not None
    assert found.process.state is State.ENDED
    assert found.pod is not None


def test_twenty_fences_of_one_holder_are_one_question_each(tree: Tree) -> None:
    """However often it is named, by whatever journals."""
    pods, jobs = Pods(), Jobs()
    details = {"pod_namespace": "ci", "pod_name": "runner-0", "pod_uid": UID}
    many = [subject(None, identity=GITHUB), subject(details, identity=GITHUB)] * 10
    assert set(look(tree, *many, reader=pods, github=jobs)) == {GITHUB}
    assert (len(jobs.asked), len(pods.asked)) == (1, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_fullest_own_journal_counts(tree: Tree, order: int) -> None:
    """The lease's, whatever the order; never another holder's."""
    subjects = [subject(None), subject(recorded()), subject(recorded(machine_id=None), journal_holder=GITHUB)]
    found = look(tree, *subjects[::order])[LOCAL]
    assert found.process is not None
    assert found.process.state is State.ENDED


def test_nobody_to_ask_about_is_no_evidence(tree: Tree) -> None:
    """And nobody is asked."""
    assert look(tree) == {}


def test_questions_run_side_by_side(tree: Tree) -> None:
    """Five pods and GitHub wait for one another, so one after the other they would never end."""
    together = threading.Barrier(5, timeout=30)

    class Meeting(Pods):
        def get(self, path: str, *, deadline_s: float | None = None) -> Said:
            if "pod-4" not in path:
                together.wait()
            return super().get(path)

    class Joining(Jobs):
        def ask(self, subjects: Sequence[Subject], *, now: datetime, deadline_s: float) -> dict[str, JobFact]:
            together.wait()
            return super().ask(subjects, now=now, deadline_s=deadline_s)

    # NB: the last in the list is taken first, so `pod-4` frees its thread for the fourth of the others.
    pods = [subject({}, identity=POD.replace("deployer-0", f"pod-{number}")) for number in range(5)]
    reader = Meeting()
    found = look(tree, subject({}, identity=GITHUB), *pods, reader=reader, github=Joining())
    assert len(found) == 6
    assert len(reader.asked) == 5
    assert all(one.pod is None or one.pod.answer.startswith("forbidden") for one in found.values())


@pytest.mark.parametrize("what", ["pods", "jobs"])
def test_who_hangs_delays_nobody_and_is_unknown(tree: Tree, never: threading.Event, what: str) -> None:
    """One answer that never comes takes no other away, and the bound holds."""
    pods = Pods(hold=never if what == "pods" else None)
    jobs = Jobs(hold=never if what == "jobs" else None)
    began_s = time.monotonic()
    found = look(
        tree, subject({}, identity=GITHUB), subject({}, identity=POD), subject(recorded()),
        reader=pods, github=jobs, deadline_s=0.1,
    )  # fmt: skip
    assert time.monotonic() - began_s < 30
    job, pod, process = found[GITHUB].job, found[POD].pod, found[LOCAL].process
    assert job is not None
    assert pod is not None
    assert process is not None
    late, other = (pod, job) if what == "pods" else (job, pod)
    assert (late.state, late.answer, late.at) == (State.UNKNOWN, "no answer within 0.1s", NOW)
    assert other.answer != late.answer
    assert process.state is State.ENDED


def test_answer_that_comes_too_late_changes_nothing(tree: Tree, never: threading.Event) -> None:
    """What was handed out stays as it is, or a plan would change under whoever acts on it."""
    found = look(tree, subject({}, identity=GITHUB), github=Jobs(hold=never), deadline_s=0.05)
    before_it = dict(found)
    never.set()
    assert found == before_it


def test_fault_of_ours_is_raised_and_not_taken_for_an_answer(tree: Tree) -> None:
    """A bug is neither dead nor unknown."""
    for options in ({"reader": Pods(broken=ZeroDivisionError())}, {"github": Jobs(broken=ZeroDivisionError())}):
        with pytest.raises(ZeroDivisionError):
            look(tree, subject({}, identity=GITHUB), subject({}, identity=POD), **options)


def test_without_a_reader_pods_are_said_not_to_be_asked(tree: Tree) -> None:
    """Unknown, with why."""
    pod = look(tree, subject({}, identity=POD), reader=None)[POD].pod
    assert pod is not None
    assert (pod.state, pod.answer) == (State.UNKNOWN, "not asked")


def test_given_time_is_what_answers_bear(tree: Tree) -> None:
    """The API server's clock, where it is known."""
    now = NOW + timedelta(seconds=90)
    found = look(tree, subject({}, identity=GITHUB), subject({}, identity=POD), subject(recorded()), now=now)
    facts = [fact for one in found.values() for fact in (one.job, one.process, one.pod) if fact is not None]
    assert [fact.at for fact in facts] == [now] * 3


def test_local_holders_need_no_network_code() -> None:
    """Looking at a process brings in neither HTTP nor TLS nor what asks GitHub."""
    code = """
import sys
from datetime import UTC, datetime
from fencectl.core.facts import Subject
from fencectl.core.identity import parse_holder
from fencectl.evidence.gather import gather
from fencectl.evidence.machine import Machine

class Clock:
    def wall(self): return datetime.now(UTC)

local = Subject(parse_holder("4f2a91c07be3d855-local-build-7-4711-9c41e07a"))
assert gather([local], environ={}, machine=Machine(), reader=None, clock=Clock(), deadline_s=5)
unwanted = ("http.client", "ssl", "subprocess", "concurrent.futures", "fencectl.evidence.github", "fencectl.cluster")
print([name for name in unwanted if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def heartbeat() -> Heartbeat:
    at = before(3600)
    return Heartbeat(micro_time(at), at, 30)


def test_case_46_job_that_ended_while_its_process_lives_is_live(tree: Tree) -> None:
    """A self-hosted runner that GitHub has given up works on: what is seen alive wins."""
    tree.add(4711, group=4711, started=8_000_000)
    given = subject(recorded(), identity=GITHUB)
    judgement = judge(HolderFacts(given.holder, heartbeat(), None, NOW, evidence=look(tree, given)[GITHUB]))
    assert (judgement.verdict, judgement.because) == (Verdict.LIVE, "its process was seen alive")


def test_case_46_job_that_ended_with_its_orphan_at_work_is_live(tree: Tree) -> None:
    """Only fencectl was killed; its payload still changes the cluster."""
    tree.add(4800, group=4800, started=8_000_100)
    given = subject(recorded(payload_group={"id": 4800, "started": 8_000_100}), identity=GITHUB)
    judgement = judge(HolderFacts(given.holder, heartbeat(), None, NOW, evidence=look(tree, given)[GITHUB]))
    assert judgement.verdict is Verdict.LIVE


def test_killed_step_is_proven_dead_on_its_own_machine(tree: Tree) -> None:
    """A later step of the same job recovers it, though GitHub says that the job goes on."""
    given = subject(recorded(payload_group={"id": 4800, "started": 8_000_100}), identity=GITHUB)

    class GoesOn(Jobs):
        def ask(self, subjects: Sequence[Subject], *, now: datetime, deadline_s: float) -> dict[str, JobFact]:
            return {GITHUB: JobFact(State.ALIVE, "job?", "in_progress", now, recorded=True)}

    evidence = look(tree, given, github=GoesOn())[GITHUB]
    judgement = judge(HolderFacts(given.holder, heartbeat(), None, NOW, evidence=evidence))
    assert (judgement.verdict, judgement.strength) == (Verdict.DEAD, Strength.PROVEN)


@pytest.fixture
def desk(sandbox: Sandbox, sandbox_cluster: Cluster) -> Cluster:
    """A cluster of the test's own."""
    assert sandbox.url == sandbox_cluster.url
    return sandbox_cluster


def test_real_github_client_and_real_cluster_are_asked_as_they_are(tree: Tree, desk: Cluster) -> None:
    """No adapter between: the cluster's transport is the reader, the environment names GitHub."""
    namespace = make_namespace(desk)
    run = journalled(structs.replace(subject({}, identity=GITHUB), repository="acme/platform"), job_verified=True)
    pod = subject({}, identity=POD.replace("-pod-ci.", f"-pod-{namespace}."))
    transport = resolve(str(desk.kubeconfig_file()), None, {}, Path("/nonexistent")).open()
    try:
        with LoopbackGitHub() as github:
            github.job(18093344127, 2, 51234567890, conclusion="cancelled")
            found = look(tree, run, pod, environ=github.env(), reader=transport, github=None)
            paths = github.paths()
    finally:
        transport.close()
    job, seen = found[GITHUB].job, found[pod.holder.identity].pod
    assert job is not None
    assert (job.state, job.recorded) == (State.ENDED, True)
    assert len(paths) == len(set(paths)) > 0
    assert seen is not None
    assert seen.state is State.VANISHED


def test_github_without_a_token_is_unknown_and_says_what_is_missing(tree: Tree) -> None:
    """Nothing is sent."""
    run = structs.replace(subject({}, identity=GITHUB), repository="acme/platform")
    job = look(tree, run, environ={}, github=None)[GITHUB].job
    assert job is not None
    assert job.state is State.UNKNOWN
    assert "GITHUB_TOKEN" in job.answer
