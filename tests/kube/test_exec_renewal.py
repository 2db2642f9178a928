"""When an exec plugin runs again: ahead of time, once for all threads, and never for longer than there is time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fencectl.cluster.credentials import Ticket
from tests.kube.support_kube import Desk, FakeClock
from tests.kube.support_loopback import until
from tests.kube.support_plugin import answering, credential, failing, runs, source_of


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with nothing but PATH in the environment."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def clock() -> FakeClock:
    """Let a test say what time it is."""
    return FakeClock()


def expiring(clock: FakeClock, in_s: float, token: str) -> str:
    at = clock.wall().timestamp() + in_s
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return credential(token=token, expirationTimestamp=f"{stamp}.123456789Z")


def test_case_69_a_caller_waits_no_longer_than_it_has_time(desk: Desk, clock: FakeClock) -> None:
    """A heartbeat with little time fails in time; the plugin goes on, and the next heartbeat has its answer."""
    go = desk.home / "go"
    os.mkfifo(go)
    source = source_of(desk, clock, f"cat {go} >/dev/null; echo '{credential(token='abc')}'")
    started_s = time.monotonic()
    error = failing(source, wait_s=0.2)
    assert time.monotonic() - started_s < 5
    assert "did not answer within" in error.sentence
    go.write_text("")
    assert source.ticket(wait_s=20) == Ticket("Bearer abc")


def test_one_run_serves_all_threads(desk: Desk, clock: FakeClock) -> None:
    """Eight readers start at once: the plugin may ask a person, so it runs once."""
    go = desk.home / "go"
    os.mkfifo(go)
    source = source_of(desk, clock, f"cat {go} >/dev/null; {answering(desk, credential(token='abc'))}")
    tickets: list[Ticket] = []
    threads = [threading.Thread(target=lambda: tickets.append(source.ticket(wait_s=20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.write_text("")
    for thread in threads:
        thread.join(20)
    assert tickets == [Ticket("Bearer abc")] * 8
    assert runs(desk) == 1


def test_case_69_a_token_is_renewed_before_it_ends(desk: Desk, clock: FakeClock) -> None:
    """A token of 60 s: used again, renewed in its last fifth while it is still used, and never used after its end."""
    source = source_of(desk, clock, answering(desk, expiring(clock, 60, "one")))
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    clock.now_s += 47
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    assert runs(desk) == 1
    answering(desk, expiring(clock, 60, "two"))
    clock.now_s += 3
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    until(lambda: source.ticket(wait_s=20) == Ticket("Bearer two"))
    assert runs(desk) == 2
    clock.now_s += 61
    answering(desk, expiring(clock, 60, "three"))
    assert source.ticket(wait_s=20) == Ticket("Bearer three")


def test_a_renewal_that_fails_ahead_of_time_stops_nobody(desk: Desk, clock: FakeClock) -> None:
    """What is there is used to its end, the plugin is not run at every request, and then the failure is said."""
    source = source_of(desk, clock, answering(desk, expiring(clock, 600, "one")))
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    answering(desk, "broken")
    clock.now_s += 550
    for _ in range(20):
        assert source.ticket(wait_s=20) == Ticket("Bearer one")
        until(lambda: runs(desk) == 2)
    until(lambda: not _busy())
    clock.now_s += 11
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    until(lambda: runs(desk) == 3 and not _busy())
    clock.now_s += 60
    assert "no ExecCredential" in failing(source).sentence


def test_a_failure_is_not_asked_for_again_at_once(desk: Desk, clock: FakeClock) -> None:
    """A report of forty reads would else start a failing plugin forty times."""
    source = source_of(desk, clock, answering(desk, "broken"))
    for _ in range(5):
        failing(source)
    assert runs(desk) == 1
    clock.now_s += 11
    answering(desk, credential(token="abc"))
    assert source.ticket(wait_s=20) == Ticket("Bearer abc")


def test_case_69_after_a_401_the_plugin_runs_once(desk: Desk, clock: FakeClock) -> None:
    """Two threads were refused with the same token: one run; the same token again is no renewal."""
    source = source_of(desk, clock, answering(desk, credential(token="one")))
    first = source.ticket(wait_s=20)
    assert source.renew(first, wait_s=20) is False
    assert runs(desk) == 2
    answering(desk, credential(token="two"))
    assert source.renew(first, wait_s=20) is True
    assert source.renew(first, wait_s=20) is True
    assert (runs(desk), source.ticket(wait_s=20)) == (3, Ticket("Bearer two"))


def test_a_token_that_was_over_when_it_came_is_used_once(desk: Desk, clock: FakeClock) -> None:
    """A plugin with a clock of its own: kubectl sends what it got, and asks again the next time."""
    source = source_of(desk, clock, answering(desk, expiring(clock, -5, "late")))
    assert source.ticket(wait_s=20) == Ticket("Bearer late")
    assert source.ticket(wait_s=20) == Ticket("Bearer late")
    assert runs(desk) == 2


def _busy() -> bool:
    return any(thread.name == "fencectl-login" for thread in threading.enumerate())
