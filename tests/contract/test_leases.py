"""
Leases as a lock: what the server checks, stores and orders.

Aspects: empty and absent holders · what is validated · MicroTime · create by PUT · guarded acquisition by many ·
a renewal that races a release · a lease that is made anew.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from tests.contract.answers import not_applicable, ok, refused, version
from tests.support.clusters import LEASES, Cluster, Raw, make_lease, make_namespace, path_of
from tests.support.rawhttp import RawAnswer

BASE = f"{LEASES}/namespaces/default/leases"
AT = "2026-11-30T12:00:00.000000Z"


def _body(name: str, spec: Raw) -> Raw:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def _guard(field: str, value: object) -> Raw:
    return {"op": "test", "path": f"/spec/{field}", "value": value}


def _put(field: str, value: object) -> Raw:
    return {"op": "add", "path": f"/spec/{field}", "value": value}


def _acquire(lease: Raw, holder: str) -> list[Raw]:
    spec = lease["spec"]
    return [
        {"op": "test", "path": "/metadata/uid", "value": lease["metadata"]["uid"]},
        _guard("holderIdentity", spec.get("holderIdentity")),
        _guard("leaseTransitions", spec.get("leaseTransitions")),
        _put("holderIdentity", holder),
        _put("leaseDurationSeconds", 30),
        _put("acquireTime", AT),
        _put("renewTime", AT),
        _put("leaseTransitions", (spec.get("leaseTransitions") or 0) + 1),
    ]


def _release(lease: Raw, holder: str) -> list[Raw]:
    return [
        {"op": "test", "path": "/metadata/uid", "value": lease["metadata"]["uid"]},
        _guard("holderIdentity", holder),
        _put("holderIdentity", ""),
        _put("leaseDurationSeconds", 1),
    ]


def _renew(lease: Raw, holder: str, at: str) -> list[Raw]:
    return [
        {"op": "test", "path": "/metadata/uid", "value": lease["metadata"]["uid"]},
        _guard("holderIdentity", holder),
        _put("renewTime", at),
    ]


def _at_once(*calls: Callable[[], RawAnswer]) -> list[RawAnswer]:
    barrier = threading.Barrier(len(calls))
    answers: list[RawAnswer | None] = [None] * len(calls)

    def run(index: int) -> None:
        barrier.wait()
        answers[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answer for answer in answers if answer is not None]


def test_empty_holder_is_stored_and_differs_from_an_absent_one(cluster: Cluster) -> None:
    """Both mean free; a guard must say which one it read."""
    empty, absent = make_lease(cluster, spec={"holderIdentity": ""}), make_lease(cluster)
    assert cluster.get(path_of(empty))["spec"] == {"holderIdentity": ""}
    assert cluster.get(path_of(absent))["spec"] == {}
    ok(cluster.json_patch(path_of(empty), [_guard("holderIdentity", "")]))
    not_applicable(cluster.json_patch(path_of(empty), [_guard("holderIdentity", None)]))
    ok(cluster.json_patch(path_of(absent), [_guard("holderIdentity", None)]))
    not_applicable(cluster.json_patch(path_of(absent), [_guard("holderIdentity", "")]))


@pytest.mark.parametrize(
    "holder",
    ["with blanks and / slashes", "é ✓", "a" * 300, "\x1b[31mred", "::error::x"],
    ids=["blanks", "not-ascii", "long", "escape", "command"],
)
def test_any_text_is_a_holder(cluster: Cluster, holder: str) -> None:
    """The server does not look at it."""
    lease = make_lease(cluster, spec={"holderIdentity": holder})
    assert cluster.get(path_of(lease))["spec"]["holderIdentity"] == holder


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("leaseDurationSeconds", 0),
        ("leaseDurationSeconds", -1),
        ("leaseTransitions", -1),
    ],
)
def test_number_out_of_range_is_invalid(cluster: Cluster, field: str, value: int) -> None:
    """A duration is positive, a count of transitions is not negative."""
    lease = make_lease(cluster)
    status = refused(cluster.json_patch(path_of(lease), [_put(field, value)]), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == f"spec.{field}"
    name = cluster.unique("lease")
    status = refused(cluster.request("POST", BASE, body=_body(name, {field: value})), 422, "Invalid")
    assert status["details"]["name"] == name


def test_strategy_and_preferred_holder_are_dropped(cluster: Cluster) -> None:
    """Coordinated leader election is off by default: these fields never arrive."""
    lease = make_lease(
        cluster, spec={"strategy": "OldestEmulationVersion", "preferredHolder": "x", "holderIdentity": "y"}
    )
    assert lease["spec"] == {"holderIdentity": "y"}


def test_zero_transitions_are_stored(cluster: Cluster) -> None:
    """Pointers: zero is not absent."""
    assert make_lease(cluster, spec={"leaseTransitions": 0})["spec"] == {"leaseTransitions": 0}


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("2026-11-30T12:00:00.000000Z", "2026-11-30T12:00:00.000000Z"),
        ("2026-11-30T12:00:00.123456Z", "2026-11-30T12:00:00.123456Z"),
        ("2026-11-30T12:00:00.123456+00:00", "2026-11-30T12:00:00.123456Z"),
        ("2026-11-30T14:00:00.123456+02:00", "2026-11-30T12:00:00.123456Z"),
    ],
)
def test_time_with_six_digits_is_stored_in_utc(cluster: Cluster, sent: str, stored: str) -> None:
    """Output is always six digits and Z."""
    lease = make_lease(cluster)
    after = ok(cluster.json_patch(path_of(lease), [_put("renewTime", sent)]))
    assert after["spec"]["renewTime"] == stored


@pytest.mark.parametrize(
    "sent",
    [
        "2026-11-30T12:00:00Z",
        "2026-11-30T12:00:00.123Z",
        "2026-11-30T12:00:00.1234567Z",
        "2026-11-30 12:00:00.123456Z",
        "2026-11-30T12:00:00.123456",
        "tomorrow",
        12,
    ],
)
def test_time_without_exactly_six_digits_is_refused(cluster: Cluster, sent: object) -> None:
    """A patch gets the 422 that quotes the object, a create 400."""
    lease = make_lease(cluster)
    status = refused(cluster.json_patch(path_of(lease), [_put("renewTime", sent)]), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "patch"
    assert cluster.get(path_of(lease)) == lease
    answer = cluster.request("POST", BASE, body=_body(cluster.unique("lease"), {"renewTime": sent}))
    refused(answer, 400, "BadRequest")


def test_time_null_is_absent(cluster: Cluster) -> None:
    """A null clears the field."""
    lease = make_lease(cluster, spec={"renewTime": AT})
    after = ok(cluster.json_patch(path_of(lease), [_put("renewTime", None)]))
    assert "renewTime" not in after["spec"]


def test_lease_has_no_status_subresource(cluster: Cluster) -> None:
    """There is nothing below a Lease."""
    lease = make_lease(cluster)
    assert cluster.request("GET", f"{path_of(lease)}/status").status == 404


def test_lease_has_no_generation(cluster: Cluster) -> None:
    """What grows in a lease is `leaseTransitions`, by the clients' own rule."""
    assert "generation" not in make_lease(cluster, spec={"holderIdentity": "x"})["metadata"]


def test_put_without_a_version_is_refused(cluster: Cluster) -> None:
    """A Lease cannot be overwritten blindly."""
    lease = make_lease(cluster)
    name = lease["metadata"]["name"]
    status = refused(cluster.request("PUT", path_of(lease), body=_body(name, {})), 422, "Invalid")
    assert "metadata.resourceVersion" in status["message"]
    assert "must be specified for an update" in status["message"]


def test_put_to_a_missing_lease_creates_it(cluster: Cluster) -> None:
    """Even one that carries a version: a PUT never proves that the lease was there."""
    name = cluster.unique("lease")
    created = cluster.request("PUT", f"{BASE}/{name}", body=_body(name, {"holderIdentity": "x"}))
    assert ok(created, 201)["metadata"]["uid"]

    other = cluster.unique("lease")
    body = _body(other, {})
    body["metadata"]["resourceVersion"] = "1"
    ok(cluster.request("PUT", f"{BASE}/{other}", body=body), 201)


def test_put_that_carries_a_uid_to_a_missing_lease_is_a_conflict(cluster: Cluster) -> None:
    """The uid is a precondition, which nothing that is created can meet."""
    name = cluster.unique("lease")
    body = _body(name, {})
    body["metadata"]["uid"] = "5b3c1c0e-0000-4000-8000-000000000000"
    refused(cluster.request("PUT", f"{BASE}/{name}", body=body), 409, "Conflict")


def test_put_with_a_stale_version_is_a_conflict(cluster: Cluster) -> None:
    """Optimistic locking."""
    lease = make_lease(cluster)
    ok(cluster.json_patch(path_of(lease), [_put("holderIdentity", "x")]))
    status = refused(cluster.request("PUT", path_of(lease), body=lease), 409, "Conflict")
    assert "the object has been modified" in status["message"]


def test_lease_in_a_missing_namespace_is_not_found(cluster: Cluster) -> None:
    """The namespace is named, not the lease."""
    namespace = cluster.unique("nowhere")
    answer = cluster.request(
        "POST", f"{LEASES}/namespaces/{namespace}/leases", body=_body("x", {"holderIdentity": "y"})
    )
    status = refused(answer, 404, "NotFound")
    assert status["message"] == f'namespaces "{namespace}" not found'


def test_namespaces_keep_leases_of_one_name_apart(cluster: Cluster) -> None:
    """A list over all namespaces shows both, a list of one namespace its own."""
    one, two = make_namespace(cluster), make_namespace(cluster)
    name = cluster.unique("lease")
    for namespace in (one, two):
        make_lease(cluster, name, namespace=namespace)
    everywhere = cluster.get(f"{LEASES}/leases", fieldSelector=f"metadata.name={name}")["items"]
    assert {item["metadata"]["namespace"] for item in everywhere} == {one, two}
    assert len(cluster.get(f"{LEASES}/namespaces/{one}/leases")["items"]) == 1


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": "", "leaseTransitions": 7}], ids=["new", "freed"])
def test_twenty_guarded_acquisitions_at_once_have_one_winner(cluster: Cluster, spec: Raw) -> None:
    """The others are told 422, and the winner's holder stands."""
    lease = make_lease(cluster, spec=spec)
    path = path_of(lease)

    def attempt(number: int) -> Callable[[], RawAnswer]:
        return lambda: cluster.json_patch(path, _acquire(lease, f"holder-{number}"))

    answers = _at_once(*(attempt(number) for number in range(20)))

    assert Counter(answer.status for answer in answers) == {200: 1, 422: 19}
    winner = next(number for number, answer in enumerate(answers) if answer.status == 200)
    after = cluster.get(path)["spec"]
    assert after["holderIdentity"] == f"holder-{winner}"
    assert after["leaseTransitions"] == spec.get("leaseTransitions", 0) + 1


def test_twenty_creations_at_once_have_one_winner(cluster: Cluster) -> None:
    """The others are told that it exists."""
    name = cluster.unique("lease")

    def attempt(number: int) -> Callable[[], RawAnswer]:
        return lambda: cluster.request("POST", BASE, body=_body(name, {"holderIdentity": f"holder-{number}"}))

    answers = _at_once(*(attempt(number) for number in range(20)))

    assert Counter(answer.status for answer in answers) == {201: 1, 409: 19}
    lost = next(answer for answer in answers if answer.status == 409)
    status = refused(lost, 409, "AlreadyExists")
    assert status["message"] == f'leases.coordination.k8s.io "{name}" already exists'


def test_renewal_that_races_a_release_never_revives_the_lease(cluster: Cluster) -> None:
    """Whatever comes first, the lease ends free: the renewal guards the holder."""
    lease = make_lease(cluster, spec={"holderIdentity": "me", "renewTime": AT})
    path = path_of(lease)
    renewals = [
        (
            lambda second=second: cluster.json_patch(
                path, _renew(lease, "me", f"2026-11-30T12:00:{second:02}.000000Z")
            )
        )
        for second in range(1, 6)
    ]

    answers = _at_once(*renewals, lambda: cluster.json_patch(path, _release(lease, "me")))

    assert answers[-1].status == 200
    assert {answer.status for answer in answers[:-1]} <= {200, 422}
    assert cluster.get(path)["spec"]["holderIdentity"] == ""
    not_applicable(cluster.json_patch(path, _renew(lease, "me", AT)))


def test_acquisition_that_is_sent_again_is_refused(cluster: Cluster) -> None:
    """A late or repeated placement finds other transitions, after the release too."""
    lease = make_lease(cluster, spec={"holderIdentity": "", "leaseTransitions": 3})
    path, ops = path_of(lease), _acquire(lease, "me")
    ok(cluster.json_patch(path, ops))
    not_applicable(cluster.json_patch(path, ops))
    ok(cluster.json_patch(path, _release(lease, "me")))
    not_applicable(cluster.json_patch(path, ops))


def test_lease_that_is_deleted_and_created_again_is_another(cluster: Cluster) -> None:
    """Another uid, and transitions start again: a guard on transitions alone would pass."""
    name = cluster.unique("lease")
    before = make_lease(cluster, name, spec={"holderIdentity": "", "leaseTransitions": 0})
    ok(cluster.request("DELETE", path_of(before)))
    after = make_lease(cluster, name, spec={"holderIdentity": "", "leaseTransitions": 0})

    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert version(after) != version(before)
    not_applicable(cluster.json_patch(path_of(after), _acquire(before, "me")))
    ok(cluster.json_patch(path_of(after), _acquire(before, "me")[1:]))


def test_guard_on_the_renew_time_sees_a_heartbeat(cluster: Cluster) -> None:
    """The stored spelling is what a guard compares."""
    lease = make_lease(cluster, spec={"holderIdentity": "me", "renewTime": "2026-11-30T13:00:00.000001+01:00"})
    path = path_of(lease)
    ok(cluster.json_patch(path, [_guard("renewTime", "2026-11-30T12:00:00.000001Z")]))
    ok(cluster.json_patch(path, _renew(lease, "me", "2026-11-30T12:00:10.000000Z")))
    not_applicable(cluster.json_patch(path, [_guard("renewTime", "2026-11-30T12:00:00.000001Z")]))
