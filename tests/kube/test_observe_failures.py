"""
Aspects: every read that fails is named · nobody answers · credentials refused · hanging servers · requests sent.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.failures import AnswerTooLarge, Kind, Unauthorised
from fencectl.cluster.observe import WHOLE, _Look, observe
from fencectl.cluster.read import Reads
from fencectl.core.errors import NotReadableError
from fencectl.core.observation import Observation, Unreadable
from fencectl.core.profiles import FENCECTL, GHCR_BRIDGE, HOLDER, Profile
from tests.kube.scripted import (
    DATE,
    KUSTOMIZATIONS,
    LEASES,
    NODES,
    DrivenClock,
    Scripted,
    listing,
    refusal,
    reply,
    thing,
    unreachable,
    wait_until,
)

LEASE = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
RECORD = "/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
CORDONED = "spec.unschedulable=true"


def look(getter: Scripted, *, profile: Profile = FENCECTL, **options: Any) -> Observation:
    chosen: dict[str, Any] = {"clock": DrivenClock(), "deadline_s": 30.0, **options}
    return observe(getter, profile=profile, server="https://prod", context="prod", **chosen)


def forbidden(resource: str, verb: str = "list") -> Any:
    message = f'{resource} is forbidden: User "ci-reader" cannot {verb} resource "{resource}" in API group "" at'
    return refusal(403, f"{message} the cluster scope", "Forbidden")


def node_lists(marked: Any, cordoned: Any) -> Any:
    """Answer the two lists of nodes apart."""
    return lambda query: cordoned if query.get("fieldSelector") == CORDONED else marked


def test_empty_cluster_is_read_whole() -> None:
    """Nothing there, nothing unreadable: this is what "no fence" may rest on."""
    found = look(Scripted())
    assert (found.leases, found.nodes, found.flux, found.records, found.unreadable) == ((), (), (), (), ())
    assert found.counts.flux_kinds == 0
    assert found.cluster_uid is None


@pytest.mark.parametrize(
    ("path", "what", "why"),
    [
        (NODES, "nodes", "forbidden: user ci-reader may not `list` nodes (cluster scope)"),
        (
            LEASES,
            "leases.coordination.k8s.io",
            "forbidden: user ci-reader may not `list` leases.coordination.k8s.io (cluster scope)",
        ),
        (
            LEASE,
            "lease/flux-system/fencectl-deploy",
            "forbidden: user ci-reader may not `get` leases.coordination.k8s.io (namespace flux-system)",
        ),
        (
            RECORD,
            "configmap/flux-system/fencectl-deploy-record",
            "forbidden: user ci-reader may not `get` configmaps (namespace flux-system)",
        ),
        (
            KUSTOMIZATIONS,
            "kustomizations.kustomize.toolkit.fluxcd.io",
            "forbidden: user ci-reader may not `list` kustomizations.kustomize.toolkit.fluxcd.io (cluster scope)",
        ),
        ("/apis", "Flux kinds", "forbidden: user ci-reader may not `get` /apis (cluster scope)"),
    ],
)
def test_forbidden_read_is_named_once_with_verb_and_resource(path: str, what: str, why: str) -> None:
    """Whatever may not be read makes the report incomplete, and says which right to ask for."""
    getter = Scripted()
    getter.on_flux(reply(listing()))
    getter.on(path, forbidden("things"))
    assert look(getter).unreadable == (Unreadable(what, why),)


def test_forbidden_cluster_uid_is_no_gap() -> None:
    """It only names the cluster in comments."""
    getter = Scripted()
    getter.on(KUBE_SYSTEM, forbidden("namespaces", "get"))
    assert look(getter).unreadable == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (refusal(500, "etcdserver: leader changed"), "500: etcdserver: leader changed"),
        (refusal(503, "apiserver is shutting down"), "503: apiserver is shutting down"),
        (
            reply("Too many requests, please try again later.\n", 429),
            "429: Too many requests, please try again later.",
        ),
        (reply("<html>bad gateway</html>", 502), "502: HTTP 502"),
        (refusal(400, "field label not supported"), "400: field label not supported"),
        (refusal(403, "no reason given"), "forbidden: may not `list` nodes (cluster scope)"),
        (reply("404 page not found", 404), "404: the server has no nodes"),
        (reply('{"items":['), "the answer could not be decoded"),
        (unreachable(Kind.RESET), "connection closed, 3 tries in 15s"),
        (unreachable(Kind.TIMEOUT), "no answer within 15s"),
        (
            AnswerTooLarge(context="prod", path=NODES, limit=512_000_000),
            "prod answered /api/v1/nodes with more than 512 MB",
        ),
        (Unauthorised(context="prod", server="s", user="u"), "401: the credentials were not accepted"),
        (refusal(410, "too old", "Expired"), "the list expired while it was read, 3 times (410)"),
    ],
)
def test_failed_list_of_nodes_is_named_and_the_rest_is_read(answer: Any, why: str) -> None:
    """Every way to fail ends in one line of the report, and in no other effect."""
    getter = Scripted()
    lease = thing("fencectl-deploy", "flux-system")
    getter.on(LEASE, reply(lease))
    begun = threading.Event()

    def serve_lease(_: dict[str, str]) -> Any:
        begun.set()
        return reply(lease)

    def serve_nodes(_: dict[str, str]) -> Any:
        begun.wait(10)
        return answer

    getter.on(LEASE, serve_lease)
    getter.on(NODES, serve_nodes)
    found = look(getter)
    assert [seen.raw for seen in found.leases] == [lease]
    assert {(one.what, one.why) for one in found.unreadable} == {("nodes", why)}


def test_server_that_is_gone_is_one_error() -> None:
    """Nothing was read, so there is no report; the other reads are not tried for as long as the first."""
    getter = Scripted()
    for path in ("/apis", NODES, LEASES):
        getter.on(path, unreachable())
    with pytest.raises(NotReadableError) as caught:
        look(getter)
    assert caught.value.sentence == "prod did not answer: https://prod"
    assert caught.value.reason == 'connection refused, 3 tries in 15s. This is not "no fence"'
    assert len(getter.requests) <= 5


def test_refused_credentials_are_one_error() -> None:
    """An expired token makes every read fail: one sentence says so."""
    refused = Unauthorised(context="prod", server="https://prod", user="ci")
    getter = Scripted()
    for path in ("/apis", NODES, LEASES):
        getter.on(path, refused)
    with pytest.raises(NotReadableError) as caught:
        look(getter)
    assert caught.value is refused


def test_user_name_of_a_refusal_is_unquoted() -> None:
    """The server quotes it as Go does; service accounts and OIDC users are shown as they are."""
    getter = Scripted()
    message = (
        'nodes is forbidden: User "oidc:a\\"b" cannot list resource "nodes" in API group "" at the cluster scope'
    )
    getter.on(NODES, refusal(403, message, "Forbidden"))
    (only,) = look(getter).unreadable
    assert only.why == 'forbidden: user oidc:a"b may not `list` nodes (cluster scope)'


def test_hanging_reads_are_named_when_the_time_is_over() -> None:
    """case_67: a server that accepts and never answers delays the report no longer than it may."""
    getter, release = Scripted(), threading.Event()

    def hang(_: dict[str, str]) -> Any:
        release.wait(30)
        return unreachable(Kind.TIMEOUT)

    getter.on_flux(hang)
    getter.on(LEASE, hang)
    started_s = SystemClock().monotonic_s()
    try:
        found = look(getter, clock=SystemClock(), deadline_s=0.2)
        took_s = SystemClock().monotonic_s() - started_s
    finally:
        release.set()
    assert took_s < 5
    assert {(one.what, one.why) for one in found.unreadable} >= {
        ("kustomizations.kustomize.toolkit.fluxcd.io", "no answer within 0.2s"),
        ("lease/flux-system/fencectl-deploy", "no answer within 0.2s"),
    }
    assert "nodes" not in [one.what for one in found.unreadable]


def test_server_that_hangs_from_the_start_is_one_error() -> None:
    """case_67: without a single answer there is no report."""
    getter, release = Scripted(), threading.Event()

    def hang(_: dict[str, str]) -> Any:
        release.wait(30)
        return unreachable(Kind.TIMEOUT)

    for path in ("/apis", NODES, LEASES):
        getter.on(path, hang)
    try:
        with pytest.raises(NotReadableError) as caught:
            look(getter, clock=SystemClock(), deadline_s=0.1)
    finally:
        release.set()
    assert caught.value.sentence == "prod did not answer: https://prod"
    assert caught.value.reason == 'no answer within 0.1s. This is not "no fence"'
    assert caught.value.hint == "kubectl --context prod get --raw /readyz"


def test_late_answer_does_not_change_the_report() -> None:
    """What comes after the deadline was said to be missing, and stays so."""
    getter, release, answered = Scripted(), threading.Event(), threading.Event()

    def late(_: dict[str, str]) -> Any:
        release.wait(30)
        answered.set()
        return reply(thing("fencectl-deploy", "flux-system"))

    getter.on(LEASE, late)
    before = set(threading.enumerate())
    reads = Reads(getter, clock=SystemClock(), deadline_s=0.1)
    looking = _Look(reads, profile=FENCECTL, named=(FENCECTL.lease,), by_label=False, parts=WHOLE)
    looking.run(timeout_s=0.1)
    release.set()
    assert answered.wait(10)
    wait_until(lambda: not set(threading.enumerate()) - before)
    assert looking.leases == []
    assert [one.what for one in looking.unreadable] == ["lease/flux-system/fencectl-deploy"]


def test_malformed_object_is_named() -> None:
    """An object of which nobody can tell whether it is fenced makes the report incomplete."""
    getter = Scripted()
    getter.on_flux(reply(listing(thing("odd", "ns", marks=[HOLDER]), thing("ok", "ns", marks={HOLDER: "x"}))))
    found = look(getter)
    assert [seen.ref.name for seen in found.flux] == ["ok"]
    assert found.unreadable == (Unreadable("kustomization/ns/odd", "the answer could not be decoded"),)


def test_unlisted_kind_without_the_field_does_not_count() -> None:
    """A kind that has no `spec.suspend` at all is read, but is no kind that could be suspended."""
    getter = Scripted()
    group = "source.toolkit.fluxcd.io"
    resources = [
        {"resource": plural, "responseKind": {"kind": plural}, "scope": "Namespaced", "verbs": ["list"]}
        for plural in ("externalartifacts", "newthings", "gone")
    ]
    versions = [{"version": "v1", "resources": resources}]
    getter.on("/apis", reply({"items": [{"metadata": {"name": group}, "versions": versions}]}))
    getter.on(f"/apis/{group}/v1/externalartifacts", reply(listing(thing("a", "ns"), thing("b", "ns"))))
    getter.on(f"/apis/{group}/v1/newthings", reply(listing(thing("a", "ns", spec={"suspend": False}))))
    found = look(getter)
    assert (found.counts.flux_kinds, found.counts.flux_objects, found.unreadable) == (1, 1, ())


MARKED = thing("n", marks={HOLDER: "x"})
CORDONED_ONLY = thing("n", spec={"unschedulable": True})
BOTH = thing("n", marks={HOLDER: "x"}, spec={"unschedulable": True})


@pytest.mark.parametrize(
    ("marked", "cordoned", "by_name", "asked", "kept"),
    [
        pytest.param([MARKED], [BOTH], None, False, BOTH, id="both agree"),
        pytest.param([], [CORDONED_ONLY], None, False, CORDONED_ONLY, id="foreign cordon"),
        pytest.param([MARKED], [], MARKED, True, MARKED, id="marked, not cordoned"),
        pytest.param([MARKED], [], None, True, None, id="marked, gone meanwhile"),
        pytest.param([MARKED], [], thing("n"), True, None, id="marked, released meanwhile"),
        pytest.param([], [BOTH], BOTH, True, BOTH, id="placed between the lists"),
        pytest.param([MARKED], [CORDONED_ONLY], BOTH, True, BOTH, id="marked in one only"),
        pytest.param(
            [MARKED], [{**BOTH, "metadata": BOTH["metadata"] | {"uid": "new"}}], BOTH, True, BOTH, id="recreated"
        ),
    ],
)
def test_node_is_read_again_where_the_two_lists_disagree(
    marked: list[Any], cordoned: list[Any], by_name: Any, asked: bool, kept: Any
) -> None:
    """Two lists are two moments; what is reported of a node was read in one."""
    getter = Scripted()
    getter.on(NODES, node_lists(reply(listing(*marked)), reply(listing(*cordoned))))
    if by_name is not None:
        getter.on(f"{NODES}/n", reply(by_name))
    found = look(getter)
    assert (f"{NODES}/n" in getter.paths()) == asked
    assert [seen.raw["metadata"] for seen in found.nodes] == ([] if kept is None else [kept["metadata"]])
    assert found.unreadable == ()


@pytest.mark.parametrize("cordoned_fails", [True, False])
def test_one_list_of_nodes_that_fails_hides_nothing_of_the_other(cordoned_fails: bool) -> None:
    """Half a view is shown as half a view, with what it holds."""
    getter = Scripted()
    lists = (
        (reply(listing(MARKED)), refusal(500, "x"))
        if cordoned_fails
        else (refusal(500, "x"), reply(listing(BOTH)))
    )
    getter.on(NODES, node_lists(*lists))
    getter.on(f"{NODES}/n", reply(BOTH))
    found = look(getter)
    assert [seen.ref.name for seen in found.nodes] == ["n"]
    assert found.unreadable == (Unreadable("nodes", "500: x"),)
    assert found.counts.nodes == 1


def test_node_that_cannot_be_read_again_is_named_and_shown_as_last_seen() -> None:
    """The report says that it is not whole, and keeps nothing back."""
    getter = Scripted()
    getter.on(NODES, node_lists(reply(listing()), reply(listing(BOTH))))
    getter.on(f"{NODES}/n", refusal(500, "x"))
    found = look(getter)
    assert [seen.ref.name for seen in found.nodes] == ["n"]
    assert found.unreadable == (Unreadable("node/n", "500: x"),)


@pytest.mark.parametrize("by_name", [True, False])
def test_images_of_a_node_are_left_out(by_name: bool) -> None:
    """They are half of a node, and nobody's evidence; the rest of the status stays."""
    node = BOTH | {"status": {"images": [{"names": ["x"]}], "nodeInfo": {"bootID": "b"}}}
    getter = Scripted()
    marked = [] if by_name else [MARKED]
    getter.on(NODES, node_lists(reply(listing(*marked)), reply(listing(node))))
    getter.on(f"{NODES}/n", reply(node))
    (seen,) = look(getter).nodes
    assert seen.raw["status"] == {"nodeInfo": {"bootID": "b"}}


def test_hostile_node_name_never_becomes_a_path() -> None:
    """Only names that an API server accepts are asked for."""
    getter = Scripted()
    getter.on(NODES, node_lists(reply(listing(thing("../../x?y", marks={HOLDER: "x"}))), reply(listing())))
    found = look(getter)
    assert found.unreadable == (Unreadable("node/../../x?y", "the answer could not be decoded"),)
    assert not any("x?y" in path for path in getter.paths())


def test_labelled_lease_is_not_read_twice_and_its_record_is_read() -> None:
    """One read for each lease, and one for its record, wherever it was found."""
    getter = Scripted()
    found_leases = listing(thing("fencectl-deploy", "flux-system"), thing("other", "team"))
    getter.on(LEASES, reply(found_leases))
    getter.on(
        "/api/v1/namespaces/team/configmaps/other-record",
        reply(thing("other-record", "team", data={"hold-freeze": "{}", "claim-3": "{}", "record-3": "{}"})),
    )
    found = look(getter, leases=[("team", "other"), ("team", "third")])
    assert [seen.ref.display for seen in found.leases] == ["lease/flux-system/fencectl-deploy", "lease/team/other"]
    assert [seen.ref.display for seen in found.records] == ["configmap/team/other-record"]
    assert (found.counts.leases, found.counts.holds) == (2, 2)
    assert LEASE not in getter.paths()
    assert "/apis/coordination.k8s.io/v1/namespaces/team/leases/third" in getter.paths()
    assert len(getter.paths()) == len(set(map(str, getter.requests)))


@pytest.mark.parametrize(("profile", "discovery"), [(FENCECTL, "configured"), (GHCR_BRIDGE, "labelled")])
def test_leases_are_not_listed_where_they_are_only_known_by_name(profile: Profile, discovery: Any) -> None:
    """Without the right to list leases everywhere, config says so; the other tool's leases have no label."""
    getter = Scripted()
    look(getter, profile=profile, discovery=discovery)
    assert LEASES not in getter.paths()
    assert LEASE in getter.paths()
    assert LEASE.replace("fencectl-deploy", "ghcr-auth-refresh") in getter.paths()


def test_time_of_the_report_is_the_servers() -> None:
    """Ages are told by the clock that wrote the times; ours is shown where it differs."""
    getter = Scripted()
    found = look(getter, clock=DrivenClock(DATE + timedelta(seconds=60)))
    assert (found.observed_at, found.skew_s) == (DATE, 59)


def test_time_without_a_date_is_ours_and_no_difference_is_claimed() -> None:
    """Some proxies strip the header."""
    getter = Scripted()
    for path, body in (("/apis", {"groups": []}), (NODES, listing()), (LEASES, listing())):
        getter.on(path, reply(body, date_at=None))
    for path in (LEASE, RECORD, KUBE_SYSTEM):
        getter.on(path, reply("", 404, date_at=None))
    getter.on(LEASE.replace("fencectl-deploy", "ghcr-auth-refresh"), reply("", 404, date_at=None))
    getter.on(RECORD.replace("fencectl-deploy", "ghcr-auth-refresh"), reply("", 404, date_at=None))
    found = look(getter)
    assert (found.observed_at, found.skew_s) == (DATE, None)
