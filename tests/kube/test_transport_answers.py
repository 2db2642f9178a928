"""What an error answer says, and what of it may be shown."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from datetime import UTC

import pytest

from fencectl.cluster.answer import Answer, cut_message, read_refusal
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.inflate import Inflate, TooMuch
from tests.kube.support_kube import SECRET
from tests.kube.support_loopback import status

JSON_PATCH = "application/json-patch+json"


def answer_of(code: int, body: bytes, **headers: str) -> Answer:
    return Answer(code, headers, body, None, 0.0, 0.0)


def test_a_status_is_read_with_details_and_causes() -> None:
    """What the API says, by field."""
    body = status(
        409,
        "Conflict",
        "Apply failed with 1 conflict",
        details={
            "name": "a",
            "group": "apps",
            "kind": "deployments",
            "causes": [
                {"reason": "FieldManagerConflict", "message": "conflict with kubectl", "field": ".spec"},
                7,
            ],
        },
        metadata={"continue": "token"},
    )
    refusal = read_refusal(answer_of(409, body, **{"retry-after": "3"}))
    assert (refusal.reason, refusal.name, refusal.group, refusal.kind) == ("Conflict", "a", "apps", "deployments")
    assert [(cause.field, cause.reason) for cause in refusal.causes] == [(".spec", "FieldManagerConflict")]
    assert (refusal.retry_after_s, refusal.continue_token) == (3.0, "token")


@pytest.mark.parametrize(
    "message",
    [
        f'Secret in version "v1" cannot be handled as a Secret: "{{\\"data\\":{{\\"x\\":\\"{SECRET}\\"}}}}": bad',
        f' "" is invalid: patch: Invalid value: "{{\\"data\\":\\"{SECRET}\\",\\"n\\":\\"a: b\\"}}": strict decoding error',
        f'x is invalid: patch: Invalid value: "{SECRET}\\": still": unknown field "spec.x"',
        f'x is invalid: patch: Invalid value: "{{\\"data\\":\\"{SECRET}\\"}}"',
        f'x is invalid: [patch: Invalid value: "{SECRET}": one, b: Invalid value: "{SECRET}": two]',
        f'is invalid: patch: Invalid value: {{"data":"{SECRET}"}}',
        "x" * 1000 + SECRET,
        f'x is invalid: patch: Invalid value: "[\\"note\\": {SECRET}',
    ],
)
def test_a_message_that_quotes_an_object_is_cut(message: str) -> None:
    """The server quotes the whole patched object, for a Secret with its data."""
    assert SECRET not in cut_message(message)
    body = status(422, "Invalid", message, details={"causes": [{"message": message, "field": "patch"}]})
    refusal = read_refusal(answer_of(422, body))
    assert SECRET not in repr(refusal)


def test_a_message_that_quotes_nothing_is_kept() -> None:
    """`Forbidden` says verb and resource; `": ` in a short text is no object."""
    message = 'nodes is forbidden: User "ci": cannot list resource "nodes" in API group "" at the cluster scope'
    assert cut_message(message) == message


@pytest.mark.parametrize("body", [b"", b"<html><h1>502</h1></html>", b"{broken", b"[1]", b'{"kind":"List"}'])
def test_an_answer_that_is_no_status_is_named_by_its_code(body: bytes) -> None:
    """A proxy's page, or nothing: no word of it is shown."""
    refusal = read_refusal(answer_of(502, body))
    assert (refusal.reason, refusal.message) == ("", "HTTP 502" if body != b"[1]" else "[1]")


@pytest.mark.parametrize("raw", ["soon", "-1", "1e3", "99999999", "Mon, 30 Nov 2026 02:47:31 GMT", "٣"])
def test_a_retry_after_that_is_no_number_is_passed_over(raw: str) -> None:
    """Only whole seconds of a sane size."""
    assert read_refusal(answer_of(429, b"x", **{"retry-after": raw})).retry_after_s is None


def test_the_systems_clock_counts_on_and_waits() -> None:
    """Aware and in UTC; a wait ends with its time, or with its event."""
    clock = SystemClock()
    before_s = clock.monotonic_s()
    assert clock.wall().tzinfo is UTC
    assert clock.wait(None, 0.001) is False
    event = threading.Event()
    assert clock.wait(event, -1) is False
    event.set()
    assert clock.wait(event, 20) is True
    assert before_s < clock.monotonic_s() < before_s + 10


def test_a_gzip_bomb_takes_no_memory() -> None:
    """Fifty megabytes in fifty kilobytes: given up before they are unpacked."""
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(TooMuch):
        Inflate(encoding="gzip", limit=100_000).feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
