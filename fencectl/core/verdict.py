"""
The verdict on a holder: one pure function from facts to a judgement that names the fact which decided it.

In this order: a fresh heartbeat beats everything; whoever was seen alive lives; a proof of death on the machine or
in the pod beats a job in progress; a job decides; what is left is unknown. Expiry alone is never proof of death: a
paused process may wake up and write. Nor is a proof of death enough while a write of the dead may still land.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fencectl.core.evidence import Evidence, Judgement, Source, Strength, Verdict
from fencectl.core.facts import NOT_ASKED, Fact, HolderEvidence, State
from fencectl.core.found import Heartbeat
from fencectl.core.heartbeat import Pulse, Reading, read_heartbeat
from fencectl.core.identity import Holder, HolderKind
from fencectl.core.times import age_text

SELF_HOSTED_GRACE_S = 15 * 60
"""For that long a self-hosted runner may go on with a job that GitHub called ended: it renews its job lock every
minute, holds it for ten, and keeps working for five more without contact (actions/runner, JobDispatcher.cs)."""


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """
    What is known about one holder.

    `heartbeat`: of the lease that it holds now; None where it holds none, then `no_heartbeat` says why ("the
    lease is free"). `unchanged_for_s`: for how long that lease was watched without a change. `succession_proven`:
    the lease was taken over to recover this very holder, by somebody who is proven dead in turn: then the missing
    heartbeat takes nothing from the proof. `check`: how a person can look for themselves. `settles`: the lease is
    one of ours, whose holder's last writes can be waited for.
    """

    holder: Holder
    heartbeat: Heartbeat | None
    no_heartbeat: str | None
    observed_at: datetime
    evidence: HolderEvidence = NOT_ASKED
    unchanged_for_s: float | None = None
    succession_proven: bool = False
    check: str | None = None
    settles: bool = True


def judge(facts: HolderFacts) -> Judgement:
    """Weigh the facts by the rules above."""
    reading = read_heartbeat(
        facts.heartbeat,
        no_heartbeat=facts.no_heartbeat,
        now=facts.observed_at,
        unchanged_for_s=facts.unchanged_for_s,
        settles=facts.settles,
    )
    verdict, strength, because = _decide(facts, reading)
    against = _first_against(facts.evidence) is not None
    settling = reading.pulse is Pulse.SETTLING and verdict is Verdict.DEAD
    if settling:
        # NB: it is dead; but a command that is printed now could free the lease before its last write has landed.
        verdict, strength = Verdict.UNKNOWN, None
        because = f"{because}, but its last write may still land; ask again in {_wait(reading)}"
    return Judgement(
        verdict,
        strength,
        because,
        _evidence(facts, reading),
        fresh=settling or reading.pulse is Pulse.FRESH,
        only_heartbeat=settling
        or (against and verdict is Verdict.UNKNOWN and reading.pulse in (Pulse.FRESH, Pulse.UNREADABLE)),
        check=facts.check,
    )


def _decide(facts: HolderFacts, reading: Reading) -> tuple[Verdict, Strength | None, str]:
    found = facts.evidence
    if reading.pulse is Pulse.FRESH:
        against = _first_against(found)
        if against is None:
            return Verdict.LIVE, None, "its heartbeat is younger than the lease's duration"
        sentence = f"{against}, and yet its heartbeat is fresh; ask again in {_wait(reading)}"
        return Verdict.UNKNOWN, None, sentence
    if found.process is not None and found.process.state is State.ALIVE:
        return Verdict.LIVE, None, "its process was seen alive"
    if found.pod is not None and found.pod.state is State.ALIVE:
        return Verdict.LIVE, None, "its container was seen running"
    if found.process is not None and found.process.state is State.ENDED:
        return _dead(facts, reading, "its process is gone from its own machine")
    if found.pod is not None and found.pod.state is State.ENDED:
        return _dead(facts, reading, "its container has terminated")
    if found.job is not None and found.job.state is State.ALIVE:
        what = "its job" if found.job.recorded else "its run's attempt"
        return Verdict.LIVE, None, f"{what} has not ended"
    if found.job is not None and found.job.state is State.ENDED:
        what = "its job" if found.job.recorded else "every job of its attempt"
        if found.job.hosted:
            return _dead(facts, reading, f"{what} has ended on a GitHub-hosted runner")
        return _dead_self_hosted(found.job.ended_for_s, reading, what)
    if found.pod is not None and found.pod.state is State.VANISHED:
        return _presumed(reading, "its pod is gone, and nobody saw its container end")
    return Verdict.UNKNOWN, None, _why_unknown(facts, reading)


def _wait(reading: Reading) -> str:
    return age_text((reading.still_in_s or 0) + 1)


def _first_against(found: HolderEvidence) -> str | None:
    """The first fact that says dead, if any."""
    if found.process is not None and found.process.state is State.ENDED:
        return "its process is gone"
    if found.pod is not None and found.pod.state in (State.ENDED, State.VANISHED):
        return "its container has ended" if found.pod.state is State.ENDED else "its pod is gone"
    if found.job is not None and found.job.state is State.ENDED:
        return "its job has ended" if found.job.recorded else "its attempt has ended"
    return None


def _dead(facts: HolderFacts, reading: Reading, why: str) -> tuple[Verdict, Strength | None, str]:
    match reading.pulse:
        case Pulse.STILL | Pulse.SETTLING:
            return Verdict.DEAD, Strength.PROVEN, f"{why}, and its heartbeat stands still"
        case Pulse.NONE if facts.succession_proven:
            return Verdict.DEAD, Strength.PROVEN, f"{why}, and whoever took its lease to recover it is dead too"
        case _:
            return _presumed(reading, why)


def _presumed(reading: Reading, why: str) -> tuple[Verdict, Strength | None, str]:
    if reading.pulse is Pulse.UNREADABLE:
        return Verdict.UNKNOWN, None, f"{why}, but its heartbeat tells no usable time"
    if reading.pulse is Pulse.NONE:
        return Verdict.DEAD, Strength.PRESUMED, f"{why}; there is no heartbeat that could stand still"
    return Verdict.DEAD, Strength.PRESUMED, f"{why}, and its heartbeat stands still"


def _dead_self_hosted(
    ended_for_s: float | None, reading: Reading, what: str
) -> tuple[Verdict, Strength | None, str]:
    if ended_for_s is None:
        return Verdict.UNKNOWN, None, f"{what} has ended, nobody says when, and its runner is not GitHub's"
    if ended_for_s < SELF_HOSTED_GRACE_S:
        wait = age_text(SELF_HOSTED_GRACE_S - ended_for_s + 1)
        return Verdict.UNKNOWN, None, f"{what} has ended on a self-hosted runner; its grace ends in {wait}"
    return _presumed(reading, f"{what} has ended on a self-hosted runner, where its process may live on")


def _why_unknown(facts: HolderFacts, reading: Reading) -> str:
    match reading.pulse:
        case Pulse.NONE:
            still = "there is no heartbeat to judge by"
        case Pulse.UNREADABLE:
            still = "its heartbeat tells no usable time"
        case _:
            still = "a still heartbeat is no proof"
    found = facts.evidence
    for fact, who in ((found.job, "GitHub"), (found.process, "this machine"), (found.pod, "its pod")):
        if fact is None:
            continue
        if fact.answer.startswith(_UNASKED):
            return f"{who} was not asked ({fact.answer.removeprefix(_UNASKED)}), and {still}"
        return f"{who} gave no proof ({fact.answer}), and {still}"
    match facts.holder.kind:
        case HolderKind.GITHUB:
            return f"GitHub was not asked, and {still}"
        case HolderKind.LOCAL:
            return f"its process was not looked at, and {still}"
        case HolderKind.POD:
            return f"its pod was not looked at, and {still}"
        case HolderKind.OPAQUE:
            return f"its identity names no run, and {still}"


def _evidence(facts: HolderFacts, reading: Reading) -> tuple[Evidence, ...]:
    found, at = facts.evidence, facts.observed_at
    lines = []
    named: tuple[tuple[Source, Fact | None], ...] = (
        (Source.JOB, found.job),
        (Source.PROCESS, found.process),
        (Source.POD, found.pod),
    )
    for source, fact in named:
        if fact is not None:
            lines.append(Evidence(source, fact.question, fact.answer, fact.at))
    if not lines and facts.holder.kind in _NOT_ASKED:
        source, question = _NOT_ASKED[facts.holder.kind]
        lines.append(Evidence(source, question, "not asked", at))
    return (*lines, Evidence(Source.HEARTBEAT, "is the lease renewed?", reading.answer, at))


_UNASKED = "not asked: "
"""How evidence begins where nobody was asked, and says why."""

_NOT_ASKED = {
    HolderKind.GITHUB: (Source.JOB, "has the job ended?"),
    HolderKind.LOCAL: (Source.PROCESS, "has the process ended?"),
    HolderKind.POD: (Source.POD, "has the container ended?"),
}
