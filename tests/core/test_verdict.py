"""
The verdict: every combination of heartbeat, job, process and pod, and the sentence that names the deciding fact.

The table below is written from the rules in words, not from the code: it is built by hand in `expected`.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest

from fencectl.core.checks import check_command
from fencectl.core.evidence import Source, Strength, Verdict
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State, Subject
from fencectl.core.found import Heartbeat
from fencectl.core.heartbeat import Pulse, read_heartbeat
from fencectl.core.identity import parse_holder
from fencectl.core.times import micro_time
from fencectl.core.verdict import SELF_HOSTED_GRACE_S, HolderFacts, judge
from tests.support.objects import HOLDER, NOW, before


def beat(at: datetime | None, duration_s: int | None = 30, text: str | None = None) -> Heartbeat:
    return Heartbeat(micro_time(at) if at else text, at, duration_s)


@pytest.mark.parametrize(
    ("given", "pulse", "answer"),
    [
        (beat(before(2)), "fresh", "moves: last 02:47:29Z, 2s ago, duration 30s"),
        (beat(before(29.9)), "fresh", "moves: last 02:47:01Z, 29s ago, duration 30s"),
        (beat(before(30)), "settling", "stands still: last 02:47:01Z, 30s ago, duration 30s"),
        (beat(before(53.9)), "settling", "stands still: last 02:46:37Z, 53s ago, duration 30s"),
        (beat(before(54)), "still", "stands still: last 02:46:37Z, 54s ago, duration 30s"),
        (beat(before(43.9), 15), "settling", "duration 15s"),
        (beat(before(44), 15), "still", "duration 15s"),
        (beat(before(73.9), 60), "settling", "duration 60s"),
        (beat(before(74), 60), "still", "duration 60s"),
        (beat(before(299), 300), "fresh", "duration 300s"),
        (beat(before(300), 300), "still", "duration 300s"),
        (beat(before(3600)), "still", "stands still: last 01:47:31Z, 1h00m ago, duration 30s"),
        (beat(before(-5)), "fresh", "moves: last 02:47:36Z, 5s ahead of the API server, duration 30s"),
        (beat(before(-31)), "unreadable", "last 02:48:02Z, 31s in the future, which proves nothing; duration 30s"),
        (beat(NOW + timedelta(days=3650)), "unreadable", "in the future, which proves nothing"),
        (beat(before(5), None), "settling", "stands still: last 02:47:26Z, 5s ago, no duration"),
        (beat(before(5), 0), "settling", "stands still: last 02:47:26Z, 5s ago, duration 0s"),
        (beat(before(39.9), None), "settling", "no duration"),
        (beat(before(40), None), "still", "no duration"),
        (beat(before(41), -5), "still", "no duration"),
        (beat(before(299), 10**9), "fresh", "duration 1000000000s, taken as 300s"),
        (beat(before(301), 10**9), "still", "duration 1000000000s, taken as 300s"),
        (beat(None), "unreadable", "unknown: the lease has no renewTime"),
        (beat(None, text="soon"), "unreadable", "unknown: the lease's renewTime is no time: soon"),
        (None, "none", "none: the lease is free"),
    ],
)
def test_case_29_heartbeat_is_read_against_the_servers_clock(
    given: Heartbeat | None, pulse: str, answer: str
) -> None:
    """Future, absurd, missing and unparseable times never count for a death and never pin a lease for ever."""
    reading = read_heartbeat(given, no_heartbeat="the lease is free", now=NOW)
    assert reading.pulse is Pulse(pulse)
    assert answer in reading.answer


@pytest.mark.parametrize(
    "given", [beat(before(3600)), beat(before(2)), beat(before(-(10**6))), beat(None, text="soon")]
)
def test_case_29_lease_watched_without_a_change_stands_still_whatever_its_times_say(given: Heartbeat) -> None:
    """The observer's own clock decides, so that no absurd time pins a lease for ever."""
    reading = read_heartbeat(given, no_heartbeat=None, now=NOW, unchanged_for_s=40)
    assert reading.pulse is Pulse.STILL
    assert reading.answer.startswith("watched for 40s: stands still")


def test_heartbeat_of_another_tool_is_still_as_soon_as_it_is_older_than_its_duration() -> None:
    """Nobody knows for how long its holder goes on writing; the rules of that tool say what is enough."""
    reading = read_heartbeat(beat(before(30)), no_heartbeat=None, now=NOW, settles=False)
    assert reading.pulse is Pulse.STILL


@pytest.mark.parametrize(
    ("age_s", "duration_s", "runs_out_s", "still_in_s"),
    [(2, 30, 28, 52), (30, 30, 24, 24), (-5, 30, 35, 59), (54, 30, None, None), (2, 300, 298, 298)],
)
def test_when_a_heartbeat_runs_out_and_when_it_is_still(
    age_s: float, duration_s: int, runs_out_s: float | None, still_in_s: float | None
) -> None:
    """The first is when a report changes, the second when a command may be printed."""
    reading = read_heartbeat(beat(before(age_s), duration_s), no_heartbeat=None, now=NOW)
    assert (reading.runs_out_s, reading.still_in_s) == (runs_out_s, still_in_s)


PULSES = {
    "fresh": beat(before(2)),
    "settling": beat(before(31)),
    "still": beat(before(3600)),
    "unreadable": beat(None, text="soon"),
    "none": None,
}


def fact(state: State) -> Fact:
    return Fact(state, "has it ended?", state.value, NOW)


def job(
    state: State, *, recorded: bool = True, hosted: bool | None = None, ended_for_s: float | None = None
) -> JobFact:
    return JobFact(state, "has the job ended?", state.value, NOW, recorded, hosted, ended_for_s)


JOBS = {
    "no job": None,
    "running": job(State.ALIVE),
    "attempt running": job(State.ALIVE, recorded=False),
    "ended hosted": job(State.ENDED, hosted=True, ended_for_s=5),
    "attempt ended hosted": job(State.ENDED, recorded=False, hosted=True, ended_for_s=5),
    "ended self-hosted": job(State.ENDED, hosted=False, ended_for_s=SELF_HOSTED_GRACE_S),
    "in its grace": job(State.ENDED, hosted=False, ended_for_s=SELF_HOSTED_GRACE_S - 1),
    "ended, nobody knows when": job(State.ENDED, hosted=False),
    "job unknown": job(State.UNKNOWN),
}
PROCESSES = {"no process": None} | {
    f"process {s.value}": fact(s) for s in (State.ALIVE, State.ENDED, State.UNKNOWN)
}
PODS = {"no pod": None} | {f"pod {s.value}": fact(s) for s in State}


def expected(pulse: str, job_is: str, process_is: str, pod_is: str) -> str:
    """Say the verdict in words, by the rules in their order."""
    if pulse == "settling":
        # As one that stands still, but nobody is called dead yet.
        settled = expected("still", job_is, process_is, pod_is)
        return "unknown" if settled.startswith("dead") else settled
    says_dead = "ended" in job_is or job_is == "in its grace" or process_is == "process ended"
    says_dead = says_dead or pod_is in ("pod ended", "pod vanished")
    if pulse == "fresh":
        return "unknown" if says_dead else "live"
    if "alive" in process_is or pod_is == "pod alive":
        return "live"
    proven = {"still": "dead (proven)", "none": "dead (presumed)", "unreadable": "unknown"}[pulse]
    presumed = {"still": "dead (presumed)", "none": "dead (presumed)", "unreadable": "unknown"}[pulse]
    if process_is == "process ended" or pod_is == "pod ended":
        return proven
    if "running" in job_is:
        return "live"
    if job_is.endswith("ended hosted"):
        return proven
    if job_is == "ended self-hosted":
        return presumed
    if job_is in ("in its grace", "ended, nobody knows when"):
        return "unknown"
    return presumed if pod_is == "pod vanished" else "unknown"


@pytest.mark.parametrize("pulse", PULSES)
@pytest.mark.parametrize("job_is", JOBS)
def test_every_combination_of_facts_has_the_verdict_that_the_rules_say(pulse: str, job_is: str) -> None:
    """All of heartbeat, job, process and pod against each other."""
    for process_is, pod_is in itertools.product(PROCESSES, PODS):
        evidence = HolderEvidence(JOBS[job_is], PROCESSES[process_is], PODS[pod_is])
        judgement = judge(HolderFacts(parse_holder(HOLDER), PULSES[pulse], "the lease is free", NOW, evidence))
        assert judgement.words == expected(pulse, job_is, process_is, pod_is), (pulse, job_is, process_is, pod_is)
        assert judgement.because
        settled = expected("still", job_is, process_is, pod_is)
        waits = pulse == "settling" and settled.startswith("dead")
        assert judgement.fresh == (pulse == "fresh" or waits)
        assert judgement.only_heartbeat or not waits
        assert ("its last write may still land; ask again in 24s" in judgement.because) == waits
        assert (judgement.strength is not None) == (judgement.verdict is Verdict.DEAD)


@pytest.mark.parametrize(
    ("evidence", "pulse", "because"),
    [
        (HolderEvidence(), "fresh", "its heartbeat is younger than the lease's duration"),
        (
            HolderEvidence(job=JOBS["ended hosted"]),
            "fresh",
            "its job has ended, and yet its heartbeat is fresh; ask again in 53s",
        ),
        (
            HolderEvidence(process=fact(State.ENDED)),
            "fresh",
            "its process is gone, and yet its heartbeat is fresh; ask again in 53s",
        ),
        (
            HolderEvidence(process=fact(State.ALIVE), job=JOBS["ended hosted"]),
            "still",
            "its process was seen alive",
        ),
        (HolderEvidence(pod=fact(State.ALIVE)), "still", "its container was seen running"),
        (
            HolderEvidence(process=fact(State.ENDED), job=JOBS["running"]),
            "still",
            "its process is gone from its own machine, and its heartbeat stands still",
        ),
        (
            HolderEvidence(process=fact(State.ENDED), job=JOBS["running"]),
            "settling",
            (
                "its process is gone from its own machine, and its heartbeat stands still, "
                "but its last write may still land; ask again in 24s"
            ),
        ),
        (HolderEvidence(job=JOBS["running"]), "settling", "its job has not ended"),
        (HolderEvidence(), "settling", "GitHub was not asked, and a still heartbeat is no proof"),
        (HolderEvidence(job=JOBS["running"]), "still", "its job has not ended"),
        (HolderEvidence(job=JOBS["attempt running"]), "still", "its run's attempt has not ended"),
        (
            HolderEvidence(job=JOBS["ended hosted"]),
            "still",
            "its job has ended on a GitHub-hosted runner, and its heartbeat stands still",
        ),
        (
            HolderEvidence(job=JOBS["ended hosted"]),
            "none",
            "its job has ended on a GitHub-hosted runner; there is no heartbeat that could stand still",
        ),
        (
            HolderEvidence(job=JOBS["ended hosted"]),
            "unreadable",
            "its job has ended on a GitHub-hosted runner, but its heartbeat tells no usable time",
        ),
        (
            HolderEvidence(job=JOBS["in its grace"]),
            "still",
            "its job has ended on a self-hosted runner; its grace ends in 2s",
        ),
        (
            HolderEvidence(pod=fact(State.VANISHED)),
            "still",
            "its pod is gone, and nobody saw its container end, and its heartbeat stands still",
        ),
        (
            HolderEvidence(job=job(State.UNKNOWN)),
            "still",
            "GitHub gave no proof (unknown), and a still heartbeat is no proof",
        ),
        (HolderEvidence(), "still", "GitHub was not asked, and a still heartbeat is no proof"),
        (HolderEvidence(), "none", "GitHub was not asked, and there is no heartbeat to judge by"),
    ],
)
def test_sentence_names_the_deciding_fact(evidence: HolderEvidence, pulse: str, because: str) -> None:
    """What is so, and why, in one line."""
    assert judge(HolderFacts(parse_holder(HOLDER), PULSES[pulse], None, NOW, evidence)).because == because


def test_case_46_fresh_heartbeat_beats_a_job_that_github_calls_ended() -> None:
    """A starved self-hosted runner may go on while GitHub has given it up."""
    evidence = HolderEvidence(job=JOBS["ended self-hosted"])
    judgement = judge(HolderFacts(parse_holder(HOLDER), beat(before(5)), None, NOW, evidence))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.fresh


def test_proof_survives_the_death_of_whoever_took_the_lease_to_recover() -> None:
    """The heartbeat is missing because of the recovery, not because of the holder."""
    evidence = HolderEvidence(job=JOBS["ended hosted"])
    judgement = judge(HolderFacts(parse_holder(HOLDER), None, "taken over", NOW, evidence, succession_proven=True))
    assert judgement.strength is Strength.PROVEN


@pytest.mark.parametrize(
    ("holder", "source", "because"),
    [
        (HOLDER, Source.JOB, "GitHub was not asked"),
        ("abc-local-host-4711-00ff00ff", Source.PROCESS, "its process was not looked at"),
        ("abc-pod-ci.runner-00ff00ff", Source.POD, "its pod was not looked at"),
    ],
)
def test_what_was_not_asked_is_said(holder: str, source: Source, because: str) -> None:
    """A missing answer is a line of its own."""
    judgement = judge(HolderFacts(parse_holder(holder), PULSES["still"], None, NOW))
    assert judgement.because == f"{because}, and a still heartbeat is no proof"
    assert next((e.source, e.answer) for e in judgement.evidence) == (source, "not asked")


def test_case_01_identity_that_names_no_run_stays_unknown_for_ever() -> None:
    """There is nobody to ask, and expiry is no proof."""
    judgement = judge(HolderFacts(parse_holder("deadbeef-3904-2045"), beat(before(10**7)), None, NOW))
    assert judgement.words == "unknown"
    assert judgement.because == "its identity names no run, and a still heartbeat is no proof"


@pytest.mark.parametrize(
    ("holder", "check"),
    [
        (HOLDER, "gh run view 18093344127 --attempt 2 --json status,conclusion"),
        ("abc-local-host-4711-00ff00ff", "ps -o pid,lstart,args -p 4711"),
        ("abc-pod-ci.runner-00ff00ff", "kubectl --context 'a b' -n ci get pod runner -o wide"),
        ("deadbeef-3904-2045", None),
    ],
)
def test_check_command_holds_no_placeholder(holder: str, check: str | None) -> None:
    """What is not known is left out."""
    assert check_command(Subject(parse_holder(holder), context="a b")) == check


@pytest.mark.parametrize(
    ("repository", "server_url", "argument"),
    [
        ("acme/platform", "https://github.com", " --repo acme/platform"),
        ("acme/platform", "https://ghe.example:8443/", " --repo ghe.example:8443/acme/platform"),
        ("acme/platform", "https://x/;rm -rf", " --repo acme/platform"),
        ("acme/platform; rm", "https://github.com", ""),
        ("../..", "https://github.com", ""),
        ("acme/-x", "https://github.com", ""),
        ("-x/y\n", "https://github.com", ""),
    ],
)
def test_case_16_check_command_pins_attempt_and_takes_no_hostile_text(
    repository: str, server_url: str, argument: str
) -> None:
    """A journal may say anything; what is not a repository's name is left out."""
    subject = Subject(parse_holder(HOLDER), repository=repository, server_url=server_url)
    assert check_command(subject) == f"gh run view 18093344127{argument} --attempt 2 --json status,conclusion"
