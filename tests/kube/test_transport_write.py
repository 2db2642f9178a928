"""Writes over loopback: sent once, and the truth about whether they may have been applied."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fencectl.cluster.credentials import CredentialsMissing
from fencectl.cluster.failures import AnswerTooLarge, NoAnswer, Unreachable
from fencectl.cluster.transport import Transport
from fencectl.core.errors import UsageError
from tests.kube.support_kube import Desk, FakeClock, Raw, config
from tests.kube.support_loopback import At, connection, dropped, silent

JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    """Let waiting take no time."""
    return FakeClock()


def test_a_write_is_sent_once_with_its_body_byte_for_byte(desk: Desk) -> None:
    """Method, content type, query and the very bytes."""
    body = '[{"op":"test","value":"<é&>"}]'.encode()
    at = At(desk, lambda _, peer: peer.say(200, b"{}"))
    with at as transport:
        answer = transport.send(
            "PATCH", "/api/v1/nodes/a", query={"fieldManager": "fencectl"}, body=body, content_type=JSON_PATCH
        )
    asked = at.server.asked[0]
    assert answer.ok
    assert (asked.method, asked.target, asked.body) == ("PATCH", "/api/v1/nodes/a?fieldManager=fencectl", body)
    assert asked.header("content-type") == JSON_PATCH


def test_a_write_that_was_not_answered_may_have_been_applied(desk: Desk, clock: FakeClock) -> None:
    """The connection broke after the request: sent once, never again, and said so."""
    at = At(desk, dropped, clock)
    with at as transport, pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is True
    assert isinstance(caught.value.cause, Unreachable)
    assert (len(at.server.asked), clock.waits) == (1, [])


def test_a_write_that_found_nobody_was_certainly_not_sent(desk: Desk, clock: FakeClock) -> None:
    """Refused before a byte left."""
    transport = Transport(connection(desk, "http://127.0.0.1:1"), clock=clock)
    with pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is False
    assert clock.waits == []


def test_a_write_whose_answer_is_too_long_may_have_been_applied(desk: Desk) -> None:
    """The server did something; what it said of it was not read."""
    at = At(desk, lambda _, peer: peer.say(200, bytes(2_000)), largest_answer=1_000)
    with at as transport, pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is True
    assert isinstance(caught.value.cause, AnswerTooLarge)


@pytest.mark.parametrize("certificate", [True, False])
def test_a_write_without_usable_credentials_was_certainly_not_sent(
    desk: Desk, clock: FakeClock, certificate: bool
) -> None:
    """No plugin, or a certificate that is none: nothing was dialled."""
    plugin: Raw = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./gone",
        "interactiveMode": "Never",
    }
    user: Raw = {"client-certificate-data": "YQ==", "client-key-data": "YQ=="} if certificate else {"exec": plugin}
    desk.write(".kube/config", config(user=user))
    transport = desk.resolve().open(clock=clock)
    with pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is False
    assert isinstance(caught.value.cause, UsageError if certificate else CredentialsMissing)


def test_a_write_that_is_throttled_is_not_repeated(desk: Desk, clock: FakeClock) -> None:
    """429 is for whoever writes to decide."""
    at = At(desk, lambda _, peer: peer.say(429, b"later", Retry_After="1"), clock)
    with at as transport:
        assert transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH).status == 429
    assert len(at.server.asked) == 1


def test_case_67_a_write_without_an_answer_ends_in_time(desk: Desk) -> None:
    """A server that took the write and is silent."""
    hold = threading.Event()
    at = At(desk, silent(hold))
    with at as transport:
        with pytest.raises(NoAnswer) as caught:
            transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH, deadline_s=0.2)
        hold.set()
    assert caught.value.sent is True
