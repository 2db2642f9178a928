"""
The record on both clusters: many writers at once, lost answers, refusals, missing rights, a full ConfigMap.

Threads of one process with a connection each; the sandbox loses answers where the real server cannot be made to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, PersonNeededError, UsageError
from fencectl.core.record_write import LARGEST_BYTES, Change, data_of
from fencectl.core.refs import ObjectRef
from fencectl.run import record as under_test
from fencectl.run.record import Decide, Record, RecordBook, UnresolvedWriteError
from tests.support.clusters import Cluster, ensure_namespace, grant, make_configmap, make_namespace

NAME = "fencectl-deploy-record"


@contextmanager
def opened(cluster: Cluster, namespace: str, *, user: str = "admin", **more: Any) -> Iterator[RecordBook]:
    """Give the book of a record, over a connection of its own."""
    connection = resolve(str(cluster.kubeconfig_file(user)), None, {}, Path.home())
    ref = ObjectRef("v1", "ConfigMap", "configmaps", namespace, NAME, "")
    with connection.open() as door:
        yield RecordBook(door, SystemClock(), ref, "hold place", "prod", **more)


def stored(cluster: Cluster, namespace: str) -> dict[str, str]:
    data: dict[str, str] = cluster.get(path(namespace)).get("data", {})
    return data


def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"


class TakenError(FencectlError):
    """The entry is there already."""


def adding(key: str, text: str) -> Decide:
    """Add an entry where none is."""

    def decide(record: Record) -> tuple[Change, ...]:
        if key in data_of(record.seen):
            raise TakenError(data_of(record.seen)[key])
        return (Change(key, None, text),)

    return decide


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    cluster.kubeconfig_file()  # written once, before threads look for it
    return make_namespace(cluster)


def test_twenty_writers_of_different_entries_all_succeed_from_nothing(cluster: Cluster, namespace: str) -> None:
    """One of them creates the ConfigMap, the others find it; a guard on one's own entry is no quarrel."""

    def write(number: int) -> None:
        with opened(cluster, namespace) as book:
            book.write(adding(f"hold-{number}", f"{number}"))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(write, range(20)))
    assert stored(cluster, namespace) == {f"hold-{number}": f"{number}" for number in range(20)}


@pytest.mark.parametrize("there", [False, True], ids=["create", "patch"])
def test_twenty_writers_of_one_entry_leave_exactly_one(cluster: Cluster, namespace: str, there: bool) -> None:
    """The others are told whose it is, and it is his."""
    if there:
        make_configmap(cluster, NAME, namespace=namespace, data={"hold-other": "x"})
    both, waited = threading.Barrier(20), [False] * 20

    def write(number: int) -> str | None:
        decide = adding("hold-incident", f"{number}")

        def at_once(record: Record) -> tuple[Change, ...]:
            changes = decide(record)
            if not waited[number]:
                waited[number] = True
                both.wait(30)  # all have read that none is there
            return changes

        with opened(cluster, namespace) as book:
            try:
                book.write(at_once)
            except TakenError as taken:
                return taken.sentence
        return None

    with ThreadPoolExecutor(20) as pool:
        told = list(pool.map(write, range(20)))
    assert told.count(None) == 1
    winner = str(told.index(None))
    assert {said for said in told if said is not None} == {winner}
    assert stored(cluster, namespace)["hold-incident"] == winner


def test_entry_that_changed_after_it_was_read_is_read_and_decided_again(cluster: Cluster, namespace: str) -> None:
    """The guard is refused; the second decision sees what the other writer wrote."""
    make_configmap(cluster, NAME, namespace=namespace, data={"claim-1": "old", "foreign": "stays"})
    seen: list[str] = []

    def decide(record: Record) -> tuple[Change, ...]:
        text = data_of(record.seen)["claim-1"]
        seen.append(text)
        if len(seen) == 1:
            cluster.merge_patch(path(namespace), {"data": {"claim-1": "é & <new>"}}, manager="other")
        return (Change("claim-1", text, None),)

    with opened(cluster, namespace) as book:
        book.write(decide)
    assert seen == ["old", "é & <new>"]
    assert stored(cluster, namespace) == {"foreign": "stays"}


def test_record_without_data_and_one_whose_last_entry_goes_are_written(cluster: Cluster, namespace: str) -> None:
    """The server leaves an empty map out, so both look alike."""
    make_configmap(cluster, NAME, namespace=namespace)
    with opened(cluster, namespace) as book:
        book.write(adding("hold-freeze", "1"))
        book.write(lambda record: (Change("hold-freeze", "1", None),))
        assert "data" not in cluster.get(path(namespace))
        after = book.write(adding("hold-freeze", "2"))
    assert stored(cluster, namespace) == {"hold-freeze": "2"}
    assert data_of(after.seen) == {"hold-freeze": "2"}


def test_record_that_was_deleted_and_made_anew_in_between_is_written_where_it_is_now(
    cluster: Cluster, namespace: str
) -> None:
    """The uid refuses the first patch; a new one is built from what is there."""
    make_configmap(cluster, NAME, namespace=namespace, data={"a": "1"})
    calls = 0

    def decide(record: Record) -> tuple[Change, ...]:
        nonlocal calls
        calls += 1
        if calls == 1:
            cluster.request("DELETE", path(namespace))
            make_configmap(cluster, NAME, namespace=namespace, data={"a": "2"})
        return (Change("hold-freeze", None, "x"),)

    with opened(cluster, namespace) as book:
        book.write(decide)
    assert (calls, stored(cluster, namespace)) == (2, {"a": "2", "hold-freeze": "x"})


def test_record_that_is_gone_in_between_is_made_anew(cluster: Cluster, namespace: str) -> None:
    """404 to the patch, and the namespace is there."""
    make_configmap(cluster, NAME, namespace=namespace, data={"a": "1"})
    calls = 0

    def decide(record: Record) -> tuple[Change, ...]:
        nonlocal calls
        calls += 1
        if calls == 1:
            cluster.request("DELETE", path(namespace))
        return (Change("hold-freeze", None, "x"),)

    with opened(cluster, namespace) as book:
        book.write(decide)
    assert (calls, stored(cluster, namespace)) == (2, {"hold-freeze": "x"})
    assert cluster.get(path(namespace))["metadata"]["labels"] == {"fencectl.dev/record": "record"}


def test_missing_namespace_is_said_as_what_it_is(cluster: Cluster) -> None:
    """Not as a missing ConfigMap, which would be made."""
    with opened(cluster, "not-there") as book, pytest.raises(UsageError) as refused:
        book.write(adding("hold-freeze", "x"))
    assert refused.value.sentence == "no namespace `not-there` on prod"


def test_record_that_would_not_fit_is_refused_before_it_is_sent(cluster: Cluster, namespace: str) -> None:
    """With the bytes, and what to take out; the server would answer with a page."""
    make_configmap(cluster, NAME, namespace=namespace, data={"foreign": "x" * (LARGEST_BYTES - 4)})
    with opened(cluster, namespace) as book:
        with pytest.raises(PersonNeededError) as refused:
            book.write(adding("hold-freeze", "12345"))
        assert "is full: 1048577 bytes" in refused.value.sentence
        book.write(adding("hold-freeze", "1234"))
    assert stored(cluster, namespace)["hold-freeze"] == "1234"


@pytest.mark.real
def test_record_that_cannot_change_is_an_error_in_the_servers_words(real: Cluster) -> None:
    """An immutable ConfigMap: sent once, never again unchanged."""
    cluster, namespace = real, make_namespace(real)
    make_configmap(cluster, NAME, namespace=namespace, data={"a": "1"})
    assert cluster.merge_patch(path(namespace), {"immutable": True}).status == 200
    with opened(cluster, namespace) as book, pytest.raises(NotReadableError) as refused:
        book.write(adding("hold-freeze", "x"))
    assert "422" in (refused.value.reason or "")
    assert "immutable" in (refused.value.reason or "")


def test_record_that_is_being_deleted_is_not_written(cluster: Cluster, namespace: str) -> None:
    """What is written to it would be gone with it."""
    make_configmap(cluster, NAME, namespace=namespace, data={"a": "1"})
    cluster.merge_patch(path(namespace), {"metadata": {"finalizers": ["test.example/wait"]}})
    cluster.request("DELETE", path(namespace))
    try:
        with opened(cluster, namespace) as book, pytest.raises(PersonNeededError) as refused:
            book.write(adding("hold-freeze", "x"))
        assert "is being deleted" in refused.value.sentence
    finally:
        cluster.merge_patch(path(namespace), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(("user", "verb"), [("user-17", "get"), ("user-18", "create"), ("user-19", "patch")])
def test_each_missing_right_is_named_with_verb_and_resource(cluster: Cluster, user: str, verb: str) -> None:
    """On the real server by RBAC: with the others it gets as far as that, and changes nothing."""
    namespace = make_namespace(cluster)
    rights = [right for right in ("get", "create", "patch") if right != verb]
    grant(cluster, user, {"apiGroups": [""], "resources": ["configmaps"], "verbs": rights}, namespace=namespace)
    if verb == "patch":
        make_configmap(cluster, NAME, namespace=namespace, data={"a": "1"})
    with opened(cluster, namespace, user=user) as book, pytest.raises(NotReadableError) as refused:
        book.write(adding("hold-freeze", "x"))
    assert refused.value.exit_code is ExitCode.INCOMPLETE
    assert refused.value.sentence == f"user {user} may not `{verb}` configmaps (namespace {namespace})"
    assert "hold place needs it for configmap/" in (refused.value.reason or "")
    assert "Nothing was changed" in (refused.value.reason or "")
    grant(cluster, user, {"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}, namespace=namespace)
    with opened(cluster, namespace, user=user) as book:
        book.write(adding("hold-freeze", "x"))
    assert stored(cluster, namespace)["hold-freeze"] == "x"


# Lost answers


@pytest.mark.parametrize("there", [False, True], ids=["create", "patch"])
def test_lost_answer_of_a_write_that_was_done_is_read_back_and_adopted(
    sandbox_cluster: Cluster, there: bool
) -> None:
    """One write on the wire, and one decision: it is ours."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    if there:
        make_configmap(sandbox_cluster, NAME, namespace=namespace, data={"foreign": "stays"})
    verb = "patch" if there else "create"
    fault = sandbox_cluster.sandbox.faults.drop_after(verb=verb, resource="configmaps", times=1)
    with opened(sandbox_cluster, namespace) as book:
        after = book.write(adding("hold-incident", "mine"))
    assert fault.hits == 1
    assert data_of(after.seen)["hold-incident"] == "mine"
    assert stored(sandbox_cluster, namespace).get("hold-incident") == "mine"


@pytest.mark.parametrize("there", [False, True], ids=["create", "patch"])
def test_write_that_was_lost_on_its_way_is_sent_again(sandbox_cluster: Cluster, there: bool) -> None:
    """Nobody has it, so the same is sent again."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    if there:
        make_configmap(sandbox_cluster, NAME, namespace=namespace, data={})
    verb = "patch" if there else "create"
    sandbox_cluster.sandbox.faults.drop_before(verb=verb, resource="configmaps", times=2)
    sandbox_cluster.sandbox.faults.throttle(verb=verb, resource="configmaps", times=1, after=2)
    with opened(sandbox_cluster, namespace) as book:
        book.write(adding("hold-incident", "mine"))
    assert stored(sandbox_cluster, namespace) == {"hold-incident": "mine"}


def test_entry_of_another_writer_is_never_adopted_after_a_lost_answer(sandbox_cluster: Cluster) -> None:
    """Almost the same is not the same."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    make_configmap(sandbox_cluster, NAME, namespace=namespace)
    faults = sandbox_cluster.sandbox.faults

    def other() -> None:
        sandbox_cluster.merge_patch(path(namespace), {"data": {"hold-incident": "mine "}}, manager="other")

    faults.on(other, verb="patch", resource="configmaps")
    faults.drop_after(verb="patch", resource="configmaps", times=2)
    with opened(sandbox_cluster, namespace) as book, pytest.raises(TakenError):
        book.write(adding("hold-incident", "mine"))
    assert stored(sandbox_cluster, namespace) == {"hold-incident": "mine "}


def test_decision_is_told_what_was_sent_without_an_answer(sandbox_cluster: Cluster) -> None:
    """It may have been carried out and undone since, which nothing in the record need show."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    make_configmap(sandbox_cluster, NAME, namespace=namespace)
    told: list[tuple[Change, ...]] = []

    def decide(record: Record) -> tuple[Change, ...]:
        told.append(record.unanswered)
        return (Change("hold-freeze", None, "x"),)

    sandbox_cluster.sandbox.faults.drop_before(verb="patch", resource="configmaps", times=1)
    with opened(sandbox_cluster, namespace) as book:
        book.write(decide)
    assert told == [(), (Change("hold-freeze", None, "x"),)]


def test_write_that_stays_unanswered_is_named_as_unresolved(
    sandbox_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a bound; nothing pretends that it did, or did not, happen."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    make_configmap(sandbox_cluster, NAME, namespace=namespace)
    monkeypatch.setattr(under_test, "WRITE_S", 0.5)
    sandbox_cluster.sandbox.faults.drop_before(verb="patch", resource="configmaps")
    with opened(sandbox_cluster, namespace, request_s=0.5) as book, pytest.raises(UnresolvedWriteError) as lost:
        book.write(adding("hold-freeze", "x"))
    assert lost.value.exit_code is ExitCode.STILL_FENCED
    assert lost.value.sentence == "nobody can say whether hold place was carried out on prod"
    assert lost.value.hint == "once the API server answers, `fencectl fences` shows it"


def test_server_that_cannot_be_read_after_a_lost_answer_leaves_the_write_unresolved(
    sandbox_cluster: Cluster,
) -> None:
    """Not "could not be read": something may have been changed."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    make_configmap(sandbox_cluster, NAME, namespace=namespace)
    faults = sandbox_cluster.sandbox.faults
    faults.drop_after(verb="patch", resource="configmaps", times=1)
    faults.refuse(status=500, verb="get", resource="configmaps", after=1)
    with opened(sandbox_cluster, namespace) as book, pytest.raises(UnresolvedWriteError):
        book.write(adding("hold-freeze", "x"))


def test_server_that_always_refuses_is_busy_and_nothing_is_unresolved(
    sandbox_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """429 is an answer: it was not carried out."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    make_configmap(sandbox_cluster, NAME, namespace=namespace)
    monkeypatch.setattr(under_test, "WRITE_S", 0.3)
    sandbox_cluster.sandbox.faults.throttle(verb="patch", resource="configmaps")
    with opened(sandbox_cluster, namespace, request_s=0.3) as book, pytest.raises(NotReadableError) as refused:
        book.write(adding("hold-freeze", "x"))
    assert "could not be written on prod" in refused.value.sentence
    assert "Nothing was changed" in (refused.value.reason or "")


def test_times_are_the_servers_own(sandbox_cluster: Cluster) -> None:
    """A workstation's clock dates no hold."""
    namespace = ensure_namespace(sandbox_cluster, "flux-system")
    sandbox_cluster.sandbox.clock.freeze(datetime(2031, 1, 1, tzinfo=UTC))
    with opened(sandbox_cluster, namespace) as book:
        read = book.read()
    assert read.seen is None
    assert read.at == datetime(2031, 1, 1, tzinfo=UTC)
