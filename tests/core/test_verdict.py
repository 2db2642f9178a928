"""The verdict from a heartbeat alone: young is live, everything else is unknown, and no odd time decides anything."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fencectl.core.evidence import Verdict
from fencectl.core.found import Heartbeat
from fencectl.core.identity import parse_holder
from fencectl.core.times import micro_time
from fencectl.core.verdict import HolderFacts, judge
from tests.support.objects import HOLDER, NOW, before


def facts(beat: Heartbeat | None, *, holder: str = HOLDER, **more: str) -> HolderFacts:
    return HolderFacts(parse_holder(holder), beat, None if beat else "the lease is free", NOW, **more)


def beat(at: datetime | None, duration_s: int | None = 30, text: str | None = None) -> Heartbeat:
    return Heartbeat(micro_time(at) if at else text, at, duration_s)


@pytest.mark.parametrize(
    ("given", "verdict", "answer"),
    [
        (beat(before(2)), "live", "moves: last 02:47:29Z, 2s ago, duration 30s"),
        (beat(before(29.9)), "live", "moves: last 02:47:01Z, 29s ago, duration 30s"),
        (beat(before(30)), "unknown", "stands still: last 02:47:01Z, 30s ago, duration 30s"),
        (beat(before(3600)), "unknown", "stands still: last 01:47:31Z, 1h00m ago, duration 30s"),
        (beat(before(-5)), "live", "moves: last 02:47:36Z, 5s ahead of the API server, duration 30s"),
        (
            beat(before(-31)),
            "unknown",
            "unknown: last 02:48:02Z, 31s in the future, which proves nothing; duration 30s",
        ),
        (beat(NOW + timedelta(days=3650)), "unknown", "in the future, which proves nothing"),
        (beat(before(5), None), "unknown", "stands still: last 02:47:26Z, 5s ago, no duration"),
        (beat(before(5), 0), "unknown", "stands still: last 02:47:26Z, 5s ago, duration 0s"),
        (beat(before(5), -5), "unknown", "no duration"),
        (beat(before(299), 10**9), "live", "duration 1000000000s, taken as 300s"),
        (beat(before(301), 10**9), "unknown", "duration 1000000000s, taken as 300s"),
        (beat(None), "unknown", "unknown: the lease has no renewTime"),
        (beat(None, text="soon"), "unknown", "unknown: the lease's renewTime is no time: soon"),
        (None, "unknown", "none: the lease is free"),
    ],
)
def test_heartbeat_is_read_against_the_servers_clock(given: Heartbeat | None, verdict: str, answer: str) -> None:
    """Future, absurd, missing and unparseable times never count for a death and never pin a lease for ever."""
    judgement = judge(facts(given))
    assert judgement.verdict is Verdict(verdict)
    assert answer in judgement.evidence[0].answer
    assert judgement.fresh == (verdict == "live")
    assert judgement.strength is None


@pytest.mark.parametrize(
    ("holder", "because", "check"),
    [
        (HOLDER, "GitHub was not asked", "gh run view 18093344127 --attempt 2 --json status,conclusion"),
        ("abc-local-host-4711-00ff00ff", "its process was not looked at", "ps -o pid,lstart,args -p 4711"),
        (
            "abc-pod-ci.runner-00ff00ff",
            "its pod was not looked at",
            "kubectl --context 'a b' -n ci get pod runner -o wide",
        ),
        ("deadbeef-3904-2045", "its identity names no run", None),
    ],
)
def test_unknown_names_what_was_not_asked_and_how_to_ask(holder: str, because: str, check: str | None) -> None:
    """The command always pins the attempt, and holds no placeholder."""
    judgement = judge(facts(beat(before(3600)), holder=holder, context="a b"))
    assert judgement.because == f"{because}, and a still heartbeat is no proof"
    assert judgement.check == check


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
    judgement = judge(facts(beat(before(3600)), repository=repository, server_url=server_url))
    assert judgement.check == f"gh run view 18093344127{argument} --attempt 2 --json status,conclusion"
