"""
The verdict on a holder: one pure function from facts to a judgement that names the fact which decided it.

Expiry alone is never proof of death: a paused process may wake up and write.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import datetime

from fencectl.core.evidence import Evidence, Judgement, Source, Verdict
from fencectl.core.found import Heartbeat
from fencectl.core.identity import Holder, HolderKind
from fencectl.core.times import age_text, clock_text

MAX_DURATION_S = 300
"""No lease of ours is longer. A longer one on a lease is capped, or an absurd duration would pin it for ever."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SERVER = re.compile(r"https://([A-Za-z0-9.-]{1,200}(?::[0-9]{1,5})?)/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """
    What is known about one holder.

    `heartbeat`: of the lease that it holds now; None where it holds none, then `no_heartbeat` says why ("the
    lease is free"). `repository` and `server_url`: where its run can be looked up, hostile until checked here.
    `context`: the one that printed commands name.
    """

    holder: Holder
    heartbeat: Heartbeat | None
    no_heartbeat: str | None
    observed_at: datetime
    repository: str | None = None
    server_url: str | None = None
    context: str | None = None


def judge(facts: HolderFacts) -> Judgement:
    """Judge a holder by its heartbeat: one that moves beats everything, one that stands still proves nothing."""
    answer, fresh = _read_heartbeat(facts)
    evidence = [Evidence(Source.HEARTBEAT, "is the lease renewed?", answer, facts.observed_at)]
    evidence += _not_asked(facts)
    check = check_command(facts)
    if fresh:
        return Judgement(
            Verdict.LIVE,
            None,
            "its heartbeat is younger than the lease's duration",
            tuple(evidence),
            fresh=True,
            check=check,
        )
    return Judgement(Verdict.UNKNOWN, None, _why_unknown(facts), tuple(evidence), check=check)


def _read_heartbeat(facts: HolderFacts) -> tuple[str, bool]:
    beat, now = facts.heartbeat, facts.observed_at
    if beat is None:
        return f"none: {facts.no_heartbeat or 'no lease of this holder was found'}", False
    if beat.renewed_text is None:
        return "unknown: the lease has no renewTime", False
    if beat.renewed_at is None:
        return f"unknown: the lease's renewTime is no time: {beat.renewed_text}", False
    if beat.duration_s is None or beat.duration_s < 0:
        duration_s, duration = 0, "no duration"
    elif beat.duration_s > MAX_DURATION_S:
        duration_s, duration = MAX_DURATION_S, f"duration {beat.duration_s}s, taken as {MAX_DURATION_S}s"
    else:
        duration_s, duration = beat.duration_s, f"duration {beat.duration_s}s"
    age_s = (now - beat.renewed_at).total_seconds()
    last = f"last {clock_text(beat.renewed_at, now=now)}"
    if age_s < -max(duration_s, 1):
        # NB: a time in the far future is the work of a wrong clock. It must neither prove a death nor hold the
        # lease until that day comes.
        return f"unknown: {last}, {age_text(-age_s)} in the future, which proves nothing; {duration}", False
    if age_s < 0:
        return f"moves: {last}, {age_text(-age_s)} ahead of the API server, {duration}", True
    if age_s < duration_s:
        return f"moves: {last}, {age_text(age_s)} ago, {duration}", True
    return f"stands still: {last}, {age_text(age_s)} ago, {duration}", False


def _not_asked(facts: HolderFacts) -> list[Evidence]:
    holder = facts.holder
    if holder.kind is HolderKind.GITHUB:
        return [Evidence(Source.JOB, "has the job ended?", "not asked", facts.observed_at)]
    if holder.kind is HolderKind.LOCAL:
        return [Evidence(Source.PROCESS, "has the process ended?", "not asked", facts.observed_at)]
    if holder.kind is HolderKind.POD:
        return [Evidence(Source.POD, "has the container ended?", "not asked", facts.observed_at)]
    return []


def _why_unknown(facts: HolderFacts) -> str:
    if facts.heartbeat is None:
        still = "there is no heartbeat to judge by"
    elif facts.heartbeat.renewed_at is None:
        still = "its heartbeat tells no time"
    else:
        still = "a still heartbeat is no proof"
    match facts.holder.kind:
        case HolderKind.GITHUB:
            return f"GitHub was not asked, and {still}"
        case HolderKind.LOCAL:
            return f"its process was not looked at, and {still}"
        case HolderKind.POD:
            return f"its pod was not looked at, and {still}"
        case HolderKind.OPAQUE:
            return f"its identity names no run, and {still}"


def check_command(facts: HolderFacts) -> str | None:
    """
    The command by which a person can see for themselves whether the holder has ended.

    Always with the attempt: a re-run reuses the run's id, so the run alone may look alive while the recorded
    attempt is long over. No placeholder: what is not known is left out.
    """
    holder = facts.holder
    if holder.kind is HolderKind.GITHUB:
        repository = _repository_argument(facts)
        named = f" --repo {repository}" if repository else ""
        return f"gh run view {holder.run}{named} --attempt {holder.attempt} --json status,conclusion"
    if holder.kind is HolderKind.LOCAL:
        return f"ps -o pid,lstart,args -p {holder.pid}"
    if holder.kind is HolderKind.POD:
        context = f"--context {shlex.quote(facts.context)} " if facts.context else ""
        return f"kubectl {context}-n {holder.pod_namespace} get pod {holder.pod_name} -o wide"
    return None


def _repository_argument(facts: HolderFacts) -> str | None:
    repository = facts.repository
    if repository is None or _REPOSITORY.fullmatch(repository) is None:
        return None
    match = _SERVER.fullmatch(facts.server_url or "")
    host = match.group(1) if match else None
    return repository if host in (None, "github.com") else f"{host}/{repository}"
