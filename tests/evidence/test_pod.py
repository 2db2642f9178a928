"""
Pod evidence: what the API server says about a holder's pod, on both clusters, and from whoever answers badly.

Aspects: running · waiting · terminated · restarted · evicted · deleted by force · made anew under its name · node
lost · which container · no uid · who may not read · answers that are no pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fencectl.cluster.kubeconfig import resolve
from fencectl.core.errors import NotReadableError
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.facts import Fact, HolderEvidence, State
from fencectl.core.found import Heartbeat
from fencectl.core.reader import Reader
from fencectl.core.times import micro_time, second_time
from fencectl.core.verdict import HolderFacts, judge
from fencectl.evidence.pod import ask_pod
from tests.evidence.machines import GITHUB, LOCAL, POD, subject
from tests.support.clusters import Cluster, expect, make_namespace
from tests.support.objects import NOW, before

Raw = dict[str, Any]
UID = "7d6c1a52-3f0e-4b8b-9a55-2f8f7a1c9e01"
RUNNING: Raw = {"running": {"startedAt": "2026-11-30T01:00:00Z"}}
WAITING: Raw = {"waiting": {"reason": "CrashLoopBackOff"}}
ENDED: Raw = {
    "terminated": {
        "exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-11-30T01:00:00Z", "finishedAt": "2026-11-30T01:47:00Z",
    }
}  # fmt: skip
DONE: Raw = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def status(name: str, state: Raw | None, *, restarts: int = 0, last: Raw | None = None) -> Raw:
    """What the kubelet reports of a container."""
    return {
        "name": name, "image": "i", "imageID": "", "ready": False, "restartCount": restarts,
        "state": state if state is not None else {}, "lastState": last or {},
    }  # fmt: skip


# -------------------------------------------------------------------------------------------- on both clusters


@dataclass
class Place:
    """A namespace with the pod `deployer-0`."""

    cluster: Cluster
    namespace: str
    containers: tuple[str, ...] = ("deploy",)
    reader: Reader | None = None
    uid: str = ""

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def make(self, *containers: str, init: tuple[str, ...] = ()) -> None:
        spec: Raw = {"containers": [{"name": name, "image": "i"} for name in containers or self.containers]}
        if init:
            spec["initContainers"] = [{"name": name, "image": "i"} for name in init]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deployer-0"}, "spec": spec}
        made = self.cluster.create(self.pods, body)
        self.uid = made["metadata"]["uid"]

    def report(self, *statuses: Raw, **more: Any) -> None:
        """Be the kubelet, or whoever speaks for it."""
        body = {"status": {"phase": "Running", "containerStatuses": list(statuses), **more}}
        expect(self.cluster.merge_patch(f"{self.pods}/deployer-0/status", body), 200)

    def delete(self, *, grace_s: int) -> None:
        answer = self.cluster.request("DELETE", f"{self.pods}/deployer-0", query={"gracePeriodSeconds": grace_s})
        expect(answer, 200)

    def ask(self, *, at: datetime | None = None, reader: Reader | None = None, **details: Any) -> Fact:
        """Ask about the holder that recorded the pod as it was made."""
        recorded = {
            "pod_namespace": self.namespace, "pod_name": "deployer-0", "pod_uid": self.uid, "container": "deploy",
        }  # fmt: skip
        reader = reader or self.reader
        assert reader is not None
        fact = ask_pod(subject(recorded | details, identity=POD), reader, at=at or datetime.now(UTC))
        assert fact is not None
        return fact


@contextmanager
def opened(cluster: Cluster, user: str = "admin") -> Iterator[Reader]:
    """The product's own way to a cluster: it is a reader as it stands."""
    transport = resolve(str(cluster.kubeconfig_file(user)), None, {}, Path("/nonexistent")).open()
    try:
        yield transport
    finally:
        transport.close()


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    with opened(cluster) as reader:
        yield Place(cluster, make_namespace(cluster), reader=reader)


def test_running_container_is_alive(place: Place) -> None:
    """As its kubelet says."""
    place.make()
    place.report(status("deploy", RUNNING))
    fact = place.ask()
    assert (fact.state, fact.answer) == (State.ALIVE, "alive: container deploy is running")
    assert fact.question == f"has container deploy of pod {place.namespace}/deployer-0 ended?"


def test_terminated_container_is_ended(place: Place) -> None:
    """That container, by the kubelet's word: the one proof that a pod can give."""
    place.make()
    place.report(status("deploy", ENDED), phase="Failed")
    fact = place.ask()
    assert (fact.state, fact.answer) == (State.ENDED, "container deploy terminated (exit code 137, OOMKilled)")


@pytest.mark.parametrize(("state", "word"), [(RUNNING, "running"), (WAITING, "waiting")])
def test_restarted_container_is_alive(place: Place, state: Raw, word: str) -> None:
    """The end of its last run is no end of the container: it writes again, or will."""
    place.make()
    place.report(status("deploy", state, restarts=3, last=ENDED))
    fact = place.ask()
    assert (fact.state, fact.answer) == (State.ALIVE, f"alive: container deploy is {word}, restarted 3 times")


def test_pod_that_never_reported_is_unknown(place: Place) -> None:
    """Not yet, or no more: nobody says what its container does."""
    place.make()
    assert place.ask().state is State.UNKNOWN


def test_pod_in_its_grace_is_alive(place: Place) -> None:
    """It is asked to end, and has not."""
    place.make()
    node = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "deployer-0"},
        "target": {"name": "worker-x"},
    }
    expect(place.cluster.request("POST", f"{place.pods}/deployer-0/binding", body=node), 201)
    place.report(status("deploy", RUNNING))
    place.delete(grace_s=30)
    fact = place.ask()
    assert (fact.state, fact.answer) == (
        State.ALIVE,
        "alive: container deploy is running, its pod is being deleted",
    )
    late = place.ask(at=datetime.now(UTC) + timedelta(minutes=10))
    assert late.state is State.UNKNOWN
    assert "and its node has not said so" in late.answer


def test_pod_deleted_by_force_has_vanished(place: Place) -> None:
    """The API server forgets it at once; its process may run on where no kubelet is heard."""
    place.make()
    place.report(status("deploy", RUNNING))
    place.delete(grace_s=0)
    fact = place.ask()
    assert fact.state is State.VANISHED
    assert (
        fact.answer == f"gone: there is no pod {place.namespace}/deployer-0 on this cluster, and nobody saw it end"
    )


@pytest.mark.parametrize("state", [RUNNING, ENDED])
def test_pod_made_anew_under_the_same_name_tells_nothing_of_the_old_one(place: Place, state: Raw) -> None:
    """A StatefulSet's next pod has its name; only the uid tells, and the old process may run on."""
    place.make()
    old = place.uid
    place.delete(grace_s=0)
    place.make()
    place.report(status("deploy", state))
    fact = place.ask(pod_uid=old)
    assert fact.state is State.VANISHED
    assert "was made anew" in fact.answer


def test_evicted_pod_whose_container_terminated_is_ended(place: Place) -> None:
    """The kubelet threw it out and saw it end."""
    place.make()
    place.report(status("deploy", ENDED), phase="Failed", reason="Evicted", message="The node was low on memory")
    assert place.ask().state is State.ENDED


@pytest.mark.parametrize("statuses", [(), (status("deploy", RUNNING),), (status("deploy", None),)])
@pytest.mark.parametrize(
    "said",
    [
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Failed", "reason": "NodeLost"},
        {"phase": "Unknown", "reason": "NodeLost"},
        {"phase": "Running", "reason": "NodeLost"},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
    ],
)
def test_pod_declared_over_without_its_containers_end_is_unknown(
    place: Place, said: Raw, statuses: tuple[Raw, ...]
) -> None:
    """Phases are written from afar too, when a node is lost; the process there may run."""
    place.make()
    place.report(*statuses, **said)
    assert place.ask().state is State.UNKNOWN


def test_container_that_its_node_no_longer_finds_has_vanished(place: Place) -> None:
    """The kubelet writes an end that it did not see, with a reason that says so."""
    place.make()
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "could not be located"}}
    place.report(status("deploy", lost), phase="Failed")
    fact = place.ask()
    assert (fact.state, fact.answer) == (
        State.VANISHED,
        "its node no longer finds its container, and nobody saw it end",
    )


def test_only_the_recorded_container_counts(place: Place) -> None:
    """A sidecar lives on, or dies, for reasons of its own."""
    place.make("deploy", "proxy")
    place.report(status("deploy", ENDED), status("proxy", RUNNING))
    assert place.ask().state is State.ENDED
    place.report(status("deploy", RUNNING), status("proxy", ENDED))
    assert place.ask().state is State.ALIVE


def test_unrecorded_container_needs_all_to_be_the_same(place: Place) -> None:
    """It may be any of them: all ended is ended, all running alive, and else nobody can tell."""
    place.make("deploy", "proxy", init=("setup",))
    place.report(status("deploy", ENDED), status("proxy", RUNNING), initContainerStatuses=[status("setup", DONE)])
    assert place.ask(container=None).state is State.UNKNOWN
    place.report(status("deploy", ENDED), initContainerStatuses=[status("setup", DONE)])
    assert place.ask(container=None).state is State.UNKNOWN
    place.report(status("deploy", ENDED), status("proxy", DONE), initContainerStatuses=[status("setup", DONE)])
    assert place.ask(container=None).state is State.ENDED


def test_unrecorded_container_of_a_pod_with_one_is_that_one(place: Place) -> None:
    """The ordinary pod."""
    place.make()
    place.report(status("deploy", RUNNING))
    assert place.ask(container=None).state is State.ALIVE


def test_recorded_container_may_be_an_init_container(place: Place) -> None:
    """A migration deploys from there."""
    place.make("app", init=("deploy",))
    place.report(status("app", WAITING), phase="Pending", initContainerStatuses=[status("deploy", RUNNING)])
    assert place.ask().state is State.ALIVE
    place.report(status("app", RUNNING), initContainerStatuses=[status("deploy", DONE)])
    fact = place.ask()
    assert (fact.state, fact.answer) == (State.ENDED, "container deploy terminated (exit code 0, Completed)")


def test_recorded_container_that_the_pod_does_not_have_is_unknown(place: Place) -> None:
    """Whatever the others do."""
    place.make()
    place.report(status("deploy", ENDED))
    assert place.ask(container="deployer").state is State.UNKNOWN


def test_without_a_uid_the_name_alone_proves_little(place: Place) -> None:
    """A pod of that name may be a later one; that there is none is worth what a vanished pod is."""
    place.make()
    place.report(status("deploy", ENDED))
    fact = place.ask(pod_uid=None)
    assert fact.state is State.UNKNOWN
    assert "no uid is recorded" in fact.answer
    place.delete(grace_s=0)
    assert place.ask(pod_uid=None).state is State.VANISHED


def test_who_may_not_read_pods_learns_nothing(place: Place) -> None:
    """Forbidden is not gone; the missing right is named."""
    place.make()
    with opened(place.cluster, "user-7") as reader:
        fact = place.ask(reader=reader)
    assert (fact.state, fact.answer) == (
        State.UNKNOWN,
        f"forbidden: may not `get` pods (namespace {place.namespace})",
    )


# --------------------------------------------------------------------------------------------- bad answers


@dataclass(frozen=True)
class Said:
    status: int
    body: bytes


@dataclass
class Scripted:
    """Answers as told."""

    answer: Said | NotReadableError
    asked: list[str] = field(default_factory=list)

    def get(self, path: str, *, deadline_s: float | None = None) -> Said:
        self.asked.append(path)
        if isinstance(self.answer, NotReadableError):
            raise self.answer
        return self.answer


def pod(**changes: Any) -> Raw:
    made: Raw = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "deployer-0", "namespace": "ci", "uid": UID},
        "spec": {"containers": [{"name": "deploy"}]},
        "status": {"phase": "Running", "containerStatuses": [status("deploy", ENDED)]},
    }  # fmt: skip
    return made | changes


DETAILS: Raw = {"pod_namespace": "ci", "pod_name": "deployer-0", "pod_uid": UID, "container": "deploy"}


def answered(
    body: object, code: int = 200, *, details: Raw | None = DETAILS, identity: str = POD, at: datetime = NOW
) -> tuple[State, str]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fact = ask_pod(subject(details, identity=identity), Scripted(Said(code, raw)), at=at)
    assert fact is not None
    assert fact.at == at
    return fact.state, fact.answer


def not_found(**changes: Any) -> Raw:
    details = {"name": "deployer-0", "kind": "pods"}
    return {"kind": "Status", "status": "Failure", "reason": "NotFound", "details": details, "code": 404} | changes


def test_answers_of_this_test_would_be_understood() -> None:
    """The control: the same pod, unspoilt."""
    assert answered(pod())[0] is State.ENDED
    assert answered(not_found(), 404)[0] is State.VANISHED


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff\xfe", b"null", b"[]", b"[" * 100_000, b'{"kind":', b"<html>502</html>", {}, {"kind": "Pod"},
        pod(kind="PodList"), pod(metadata=None), pod(metadata={"name": "deployer-0", "namespace": "ci"}),
        pod(metadata={"name": "deployer-0", "namespace": "ci", "uid": ""}),
        pod(metadata={"name": "deployer-0", "namespace": "ci", "uid": 7}),
        pod(metadata={"name": "deployer-1", "namespace": "ci", "uid": UID}),
        pod(metadata={"name": "deployer-0", "namespace": "cd", "uid": UID}),
        pod(spec=None), pod(spec={"containers": "deploy"}), pod(spec={"containers": [None, 7, {"name": 7}]}),
        pod(status=None), pod(status={}), pod(status={"containerStatuses": {"deploy": ENDED}}),
        pod(status={"containerStatuses": [{"name": "deploy"}]}),
        pod(status={"containerStatuses": [{"name": "deploy", "state": None}]}),
        pod(status={"containerStatuses": [{"name": "deploy", "state": {"terminated": None}}]}),
        pod(status={"containerStatuses": [{"name": "deploy", "state": {"terminated": "yes"}}]}),
        pod(status={"containerStatuses": [{"name": "deploy", "state": {"paused": {}}}]}),
        pod(status={"containerStatuses": [status("deploy", ENDED | RUNNING)]}),
    ],
)  # fmt: skip
def test_answer_that_is_not_this_pod_is_unknown(body: object) -> None:
    """Proxies, old caches and broken servers say all sorts of things with a 200."""
    assert answered(body)[0] is State.UNKNOWN


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found", b"<html>", {}, not_found(reason="Gone"), not_found(details=None), not_found(reason=None),
        not_found(details={"name": "ci", "kind": "namespaces"}), not_found(details={"name": "deployer-1", "kind": "pods"}),
    ],
)  # fmt: skip
def test_404_that_does_not_name_the_pod_is_unknown(body: object) -> None:
    """A proxy's 404 is not the API server's."""
    assert answered(body, 404) == (State.UNKNOWN, "a 404 that does not name the pod")


@pytest.mark.parametrize("code", [204, 301, 400, 409, 410, 429, 500, 502, 503, 504])
def test_other_answers_are_unknown_and_not_quoted(code: int) -> None:
    """The server's text may quote a whole object."""
    state, answer = answered({"kind": "Status", "message": "s3cr3t-canary-7f41"}, code)
    assert (state, answer) == (State.UNKNOWN, f"the API server answered {code}")


@pytest.mark.parametrize("code", [401, 403])
def test_refused_is_unknown(code: int) -> None:
    """And names the right."""
    assert answered({}, code) == (State.UNKNOWN, "forbidden: may not `get` pods (namespace ci)")


def test_nobody_who_answers_is_unknown() -> None:
    """Unreachable is not gone."""
    fact = ask_pod(subject(DETAILS, identity=POD), Scripted(NotReadableError("prod did not answer: x")), at=NOW)
    assert fact is not None
    assert (fact.state, fact.answer) == (State.UNKNOWN, "not answered: prod did not answer: x")


def test_terminated_without_an_exit_code_is_ended_and_says_so() -> None:
    """The state counts, the numbers in it are for people."""
    odd = {"terminated": {"exitCode": True, "reason": 7}}
    state, answer = answered(pod(status={"containerStatuses": [status("deploy", odd)]}))
    assert (state, answer) == (State.ENDED, "container deploy terminated (no exit code)")


def test_ephemeral_container_counts_where_it_is_the_recorded_one() -> None:
    """Somebody deployed from `kubectl debug`."""
    spec = {"containers": [{"name": "app"}], "ephemeralContainers": [{"name": "debugger-1"}]}
    for state, expected in ((RUNNING, State.ALIVE), (ENDED, State.ENDED)):
        said = {
            "containerStatuses": [status("app", RUNNING)],
            "ephemeralContainerStatuses": [status("debugger-1", state)],
        }
        body = pod(spec=spec, status=said)
        assert answered(body, details=DETAILS | {"container": "debugger-1"})[0] is expected
    assert answered(body)[0] is State.UNKNOWN


@pytest.mark.parametrize("due_s", [-3600, -61])
def test_pod_overdue_is_unknown_and_not_alive_for_ever(due_s: int) -> None:
    """Its node is silent: nobody has seen it run since."""
    metadata = {
        "name": "deployer-0", "namespace": "ci", "uid": UID, "deletionTimestamp": second_time(NOW + timedelta(seconds=due_s)),
    }  # fmt: skip
    running = {"phase": "Running", "containerStatuses": [status("deploy", RUNNING)]}
    assert answered(pod(metadata=metadata, status=running))[0] is State.UNKNOWN
    metadata["deletionTimestamp"] = second_time(NOW - timedelta(seconds=30))
    assert answered(pod(metadata=metadata, status=running))[0] is State.ALIVE
    metadata["deletionTimestamp"] = "soon"
    assert answered(pod(metadata=metadata, status=running))[0] is State.ALIVE


# ---------------------------------------------------------------------------------------------- who is asked


@pytest.mark.parametrize(
    ("identity", "details"),
    [
        (LOCAL, None),
        (LOCAL, {}),
        (GITHUB, {}),
        (GITHUB, {"pod_namespace": "ci", "pod_name": "deployer-0"}),
        (GITHUB, {"pod_uid": UID}),
        (GITHUB, DETAILS | {"pod_name": "../../secrets/x"}),
        (GITHUB, DETAILS | {"pod_namespace": "a/b"}),
        ("someone", {}),
    ],
)
def test_holder_without_a_pod_is_not_asked_about(identity: str, details: Raw | None) -> None:
    """There is nothing to ask, and nothing is sent."""
    reader = Scripted(Said(200, b"{}"))
    assert ask_pod(subject(details, identity=identity), reader, at=NOW) is None
    assert reader.asked == []


@pytest.mark.parametrize(
    ("identity", "details", "path"),
    [
        (POD, None, "/api/v1/namespaces/ci/pods/deployer-0"),
        (POD, {}, "/api/v1/namespaces/ci/pods/deployer-0"),
        (POD, {"pod_namespace": "x/../y", "pod_name": 7}, "/api/v1/namespaces/ci/pods/deployer-0"),
        (POD, DETAILS | {"pod_name": "deployer-1"}, "/api/v1/namespaces/ci/pods/deployer-1"),
        (GITHUB, DETAILS, "/api/v1/namespaces/ci/pods/deployer-0"),
        (LOCAL, DETAILS, "/api/v1/namespaces/ci/pods/deployer-0"),
    ],
)
def test_pod_is_asked_for_once_by_its_recorded_name(identity: str, details: Raw | None, path: str) -> None:
    """The journal's name is whole, the identity's may be cut."""
    reader = Scripted(Said(500, b""))
    ask_pod(subject(details, identity=identity), reader, at=NOW)
    assert reader.asked == [path]


def test_another_holders_journal_tells_nothing_of_its_pod() -> None:
    """The pod of a nested run or a recoverer is another one."""
    given = subject(DETAILS, identity=GITHUB, journal_holder=POD)
    assert ask_pod(given, Scripted(Said(200, b"{}")), at=NOW) is None


def test_pod_whose_name_may_be_cut_is_not_gone_for_not_being_found() -> None:
    """A long name stands in the identity in part, with a hash: no pod has that name."""
    name = f"{'a' * 71}-0123abcd"
    body = not_found(details={"name": name, "kind": "pods"})
    state, answer = answered(body, 404, details=None, identity=f"4f2a91c07be3d855-pod-ci.{name}-9c41e07a")
    assert state is State.UNKNOWN
    assert "may have been cut" in answer


# ---------------------------------------------------------------------------------------------- what it proves


@pytest.mark.parametrize(
    ("body", "code", "verdict", "strength"),
    [
        (pod(), 200, Verdict.DEAD, Strength.PROVEN),
        (not_found(), 404, Verdict.DEAD, Strength.PRESUMED),
        (
            pod(metadata={"name": "deployer-0", "namespace": "ci", "uid": "new"}),
            200,
            Verdict.DEAD,
            Strength.PRESUMED,
        ),
        (pod(status={"containerStatuses": [status("deploy", RUNNING)]}), 200, Verdict.LIVE, None),
        ({}, 403, Verdict.UNKNOWN, None),
    ],
)
def test_pod_gone_is_presumed_dead_and_only_a_terminated_container_proven(
    body: Raw, code: int, verdict: Verdict, strength: Strength | None
) -> None:
    """From the answer to the judgement, with a heartbeat that stands still."""
    raw = json.dumps(body).encode()
    given = subject(DETAILS, identity=POD)
    found = ask_pod(given, Scripted(Said(code, raw)), at=NOW)
    renewed_at = before(3600)
    heartbeat = Heartbeat(micro_time(renewed_at), renewed_at, 30)
    judgement = judge(HolderFacts(given.holder, heartbeat, None, NOW, evidence=HolderEvidence(pod=found)))
    assert (judgement.verdict, judgement.strength) == (verdict, strength)
