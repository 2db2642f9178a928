"""Aspects: Go's JSON · selectors · strategic merges · ownership of fields · protobuf · tables · durations."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencectl.sandbox import Sandbox, StatusError
from fencectl.sandbox.decode import decode_object
from fencectl.sandbox.fields import field_set, from_fields_v1, readable, to_fields_v1
from fencectl.sandbox.gojson import NotJsonError, decode, duplicate_fields, encode, quote, show
from fencectl.sandbox.mergepatch import merge
from fencectl.sandbox.protobuf import decode_body
from fencectl.sandbox.resources import ResourceTable, built_in_resources, flux_resources
from fencectl.sandbox.selectors import label_matcher, selector_matcher
from fencectl.sandbox.strategic import merge_strategic
from fencectl.sandbox.tables import read_path, short_duration
from fencectl.sandbox.types_builtin import TYPES
from tests.sandbox.support import Raw, ask, config_map, kustomization, lease, node


def test_text_is_escaped_as_go_does() -> None:
    """Five characters more than Python, and none less."""
    text = '<é>&\u2028\u2029🦀\b\f\x01\x7f"\\'
    assert encode(text) == '"\\u003cé\\u003e\\u0026\\u2028\\u2029🦀\\b\\f\\u0001\x7f\\"\\\\"'


@settings(max_examples=40, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_what_is_encoded_reads_back(value: Any) -> None:
    """Escaping changes the spelling only."""
    assert decode(encode(value)) == value


def test_lone_surrogates_are_replaced() -> None:
    """As Go's decoder does; they cannot be written as UTF-8."""
    assert decode('{"\\ud800":"\\udfff"}') == {"\ufffd": "\ufffd"}
    assert decode(b'"\xff"') == "\ufffd"


@pytest.mark.parametrize("text", ["", "{", "[1,]", "Infinity", "nope", '{"a":1} x'])
def test_text_that_is_no_json_is_an_error(text: str) -> None:
    """With a message in Go's manner."""
    with pytest.raises(NotJsonError, match=r"unexpected end|invalid character"):
        decode(text)


def test_go_spellings_of_values() -> None:
    """%q and %v, which messages are made of."""
    assert quote('a"\\\n\x01é\u200b🦀\U000e0001') == '"a\\"\\\\\\n\\x01é\\u200b🦀\\U000e0001"'
    assert show({"b": [1, None, True], "a": {"x": "y"}}) == "map[a:map[x:y] b:[1 <nil> true]]"
    assert duplicate_fields('{"a":1,"a":2,"b":{"c":1,"c":2}}') == ["c", "a"]


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a", True),
        ("!a", False),
        ("!z", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a!=1", False),
        ("z!=1", True),
        ("a in (1, 2)", True),
        ("a notin (1,2)", False),
        ("z notin (1)", True),
        ("n>4", True),
        ("n < 4", False),
        ("a=", False),
        ("e=", True),
        ("a in ()", False),
        ("e in ()", True),
        ("x.y/a-b_c=v", True),
        ("in=in", True),
    ],
)
def test_label_selector_matches(selector: str, matches: bool) -> None:
    """The whole syntax."""
    labels = {"a": "1", "b": "2", "n": "5", "e": "", "x.y/a-b_c": "v", "in": "in"}
    assert label_matcher(selector)({"metadata": {"labels": labels}}) is matches


@pytest.mark.parametrize(
    "selector",
    [
        "a in (b",
        "a=b=c",
        "!!a",
        "/a=1",
        "a=b c",
        "a>x",
        ",",
        "a,",
        "a in b",
        "a in (b c)",
        "a in (=)",
        "=",
        "a ~ b",
    ],
)
def test_label_selector_that_is_malformed_is_a_bad_request(selector: str) -> None:
    """400, with the token that was not expected."""
    with pytest.raises(StatusError) as refused:
        label_matcher(selector)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selector_object_matches(selector: Any, matches: bool) -> None:
    """As a budget selects pods."""
    assert selector_matcher(selector)({"a": "1"}) is matches


@pytest.mark.parametrize(
    ("live", "patch", "after"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_json_merge_patch(live: Any, patch: Any, after: Any) -> None:
    """RFC 7386."""
    assert merge(live, patch) == after


def _pod(*containers: Raw, **more: Any) -> Raw:
    return {"spec": {"containers": list(containers), **more}}


@pytest.mark.parametrize(
    ("live", "patch", "after"),
    [
        (_pod({"name": "a", "image": "1"}), _pod({"name": "a", "image": "2"}), _pod({"name": "a", "image": "2"})),
        (
            _pod({"name": "a"}, {"name": "b"}),
            _pod({"name": "a", "$patch": "delete"}),
            _pod({"name": "b"}),
        ),
        (_pod({"name": "a"}), _pod({"name": "n"}), _pod({"name": "n"}, {"name": "a"})),
        (_pod({"name": "a"}), _pod({"$patch": "replace"}, {"name": "n"}), _pod({"name": "n"})),
        (
            _pod({"name": "a"}, {"name": "b"}),
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            _pod({"name": "b"}, {"name": "a"}),
        ),
        (
            {"metadata": {"finalizers": ["a/x", "b/y"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}},
            {"metadata": {"finalizers": ["b/y"]}},
        ),
        (
            {"metadata": {"finalizers": ["a/x"]}},
            {"metadata": {"finalizers": ["b/y"]}},
            {"metadata": {"finalizers": ["b/y", "a/x"]}},
        ),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
         {"metadata": {"labels": {"b": "2"}}}),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "delete"}}},
         {"metadata": {"labels": {}}}),
        ({"spec": {"nodeSelector": {"a": "1"}}}, {"spec": {"$retainKeys": ["hostname"], "hostname": "h"}},
         {"spec": {"hostname": "h"}}),
        ({"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": [{"key": "b"}]}},
         {"spec": {"tolerations": [{"key": "b"}]}}),
    ],
)  # fmt: skip
def test_strategic_merge_patch(live: Any, patch: Any, after: Any) -> None:
    """Merge keys and directives of the built-in kinds."""
    assert merge_strategic(TYPES["Pod"], live, patch) == after


@pytest.mark.parametrize("patch", [{"$patch": "nonsense"}, _pod({"image": "x"}), {"spec": {"containers": [1]}}])
def test_strategic_patch_that_cannot_be_merged_is_a_bad_request(patch: Raw) -> None:
    """An unknown directive, or an item without its merge key."""
    with pytest.raises(StatusError) as refused:
        merge_strategic(TYPES["Pod"], _pod(), patch)
    assert refused.value.code == 400


def test_ownership_is_spelled_and_read_back() -> None:
    """Keyed lists, sets and maps; `.` where a container itself is owned."""
    obj: Raw = {
        "metadata": {"labels": {"a": "1"}, "finalizers": ["x/y"]},
        **_pod({"name": "c", "ports": [{"containerPort": 80}]}, nodeSelector={}),
    }
    paths = field_set(TYPES["Pod"], obj)
    spelled = to_fields_v1(paths)
    assert from_fields_v1(spelled) == paths
    assert spelled["f:metadata"] == {"f:finalizers": {'v:"x/y"': {}}, "f:labels": {"f:a": {}}}
    container = spelled["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:ports"] == {
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
    }
    shown = {readable(path) for path in paths}
    assert '.spec.containers[name="c"].name' in shown
    assert '.metadata.finalizers[="x/y"]' in shown


@pytest.mark.parametrize(
    "resource",
    [*built_in_resources(), *flux_resources()],
    ids=lambda resource: f"{resource.plural}.{resource.group}",
)
def test_every_kind_decodes_an_empty_object(resource: Any) -> None:
    """No description of a type is broken, and a second pass changes nothing."""
    first = decode_object(resource, {"metadata": {"name": "x"}}).obj
    assert first["kind"] == resource.kind
    assert decode_object(resource, first).obj == first


def test_built_in_kinds_lose_what_go_omits(quiet: Sandbox) -> None:
    """A false `unschedulable` is not stored; an empty holder is; a custom `suspend: false` is."""
    assert quiet.store.create(node("a", unschedulable=False))["spec"] == {}
    assert quiet.store.create(lease("l", holder=""))["spec"] == {"holderIdentity": ""}
    made = quiet.store.create(kustomization("k", suspend=False))
    assert made["spec"]["suspend"] is False
    patched = quiet.store.patch("ks", "k", {"metadata": {"annotations": {}}}, namespace="flux-system")
    assert "annotations" not in patched["metadata"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (700, "11m"), (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (47 * 3600, "47h"), (50 * 3600, "2d2h"), (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, text: str) -> None:
    """Two units at most, as kubectl writes ages."""
    assert short_duration(seconds) == text


def test_printer_columns_are_read() -> None:
    """Names, indexes and the condition filter."""
    obj = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "list": [{"a": 1}]}}
    assert read_path(obj, '.status.conditions[?(@.type=="Ready")].status') == "True"
    assert read_path(obj, ".status.list[0].a") == 1
    assert read_path(obj, ".status.none.a") is None
    assert read_path(obj, ".status.list[4].a") is None


def _rows(sandbox: Sandbox, path: str) -> list[list[Any]]:
    headers = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    answer = ask(sandbox, "GET", path, headers=headers)
    assert answer.status == 200
    table = answer.json()
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
    return [row["cells"] for row in table["rows"]]


def test_tables_of_every_kind_have_a_cell_per_column(quiet: Sandbox) -> None:
    """Whatever the objects hold."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"a": "b"}}
    spec = {"selector": selector, "template": template}
    meta = {"name": "x", "namespace": "default"}
    for api, kind, more in (
        ("apps/v1", "Deployment", {"spec": spec}),
        ("apps/v1", "StatefulSet", {"spec": spec}),
        ("apps/v1", "DaemonSet", {"spec": spec}),
        ("apps/v1", "ReplicaSet", {"spec": spec}),
        ("batch/v1", "Job", {"spec": {"template": template}}),
        ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": "50%", "selector": selector}}),
        ("v1", "Pod", {"spec": template["spec"]}),
        ("v1", "Secret", {"stringData": {"a": "b"}}),
        ("v1", "Service", {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}),
        ("v1", "ServiceAccount", {}),
        ("v1", "Event", {"involvedObject": {"kind": "Pod", "name": "x"}, "reason": "R", "message": "m"}),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": []}),
    ):
        quiet.store.create({"apiVersion": api, "kind": kind, "metadata": meta, **more})
    quiet.store.create(node("n", unschedulable=True))
    quiet.store.create(lease("l", holder="me"))
    quiet.store.create(config_map("c", a="b"))
    quiet.store.create(kustomization("k"))
    for resource in quiet.resources.all():
        prefix = f"/apis/{resource.group}" if resource.group else "/api"
        _rows(quiet, f"{prefix}/{resource.version}/{resource.plural}")
    assert _rows(quiet, "/api/v1/nodes")[0][:3] == ["n", "Unknown,SchedulingDisabled", "<none>"]
    assert _rows(quiet, "/apis/coordination.k8s.io/v1/leases")[0][:2] == ["l", "me"]
    assert _rows(quiet, "/apis/apps/v1/deployments")[0][:4] == ["x", "0/1", "0", "0"]
    assert _rows(quiet, "/apis/policy/v1/poddisruptionbudgets")[0][1:4] == ["50%", "N/A", 0]


def test_table_of_a_node_tells_its_state() -> None:
    """Ready, roles, age and addresses."""
    sandbox = Sandbox(manual_clock_at=datetime(2026, 1, 1, tzinfo=UTC))
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.37.2"},
    }
    labels = {"node-role.kubernetes.io/worker": ""}
    sandbox.store.create({**node("n"), "metadata": {"name": "n", "labels": labels}, "status": status})
    sandbox.clock.advance(timedelta(hours=5).total_seconds())
    cells = _rows(sandbox, "/api/v1/nodes")[0]
    assert cells[:6] == ["n", "Ready", "worker", "5h", "v1.37.2", "10.0.0.1"]


def _field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return bytes([number << 3, payload])
    return bytes([number << 3 | 2, len(payload)]) + payload


def _message(kind: str, raw: bytes, api_version: str = "v1") -> bytes:
    meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, meta) + _field(2, raw)


def test_protobuf_of_a_typed_client_is_read() -> None:
    """Strings, maps, bytes, booleans, times, and an explicit zero of a pointer."""
    metadata = _field(1, _field(1, b"c") + _field(2, b"") + _field(11, _field(1, b"k") + _field(2, b"v")))
    data = _field(2, _field(1, b"a") + _field(2, b"b")) + _field(3, _field(1, b"x") + _field(2, b"\x00\x01"))
    assert decode_body(_message("ConfigMap", metadata + data + _field(4, 1))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"k": "v"}},
        "data": {"a": "b"},
        "binaryData": {"x": "AAE="},
        "immutable": True,
    }
    spec = _field(2, _field(1, b"") + _field(2, 30) + _field(4, _field(1, 90)))
    assert decode_body(_message("Lease", spec))["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 30,
        "renewTime": "1970-01-01T00:01:30.000000Z",
    }
    budget = _field(2, _field(1, _field(1, 1) + _field(3, b"50%")) + _field(3, _field(2, 2)))
    assert decode_body(_message("PodDisruptionBudget", budget))["spec"] == {
        "minAvailable": "50%",
        "maxUnavailable": 2,
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", 400),
        (_message("Unheard", b""), 415),
        (_message("ConfigMap", _field(15, b"data")), 415),
        (_message("ConfigMap", b"\x0a\x7f"), 400),
        (_message("ConfigMap", b"\x0b"), 400),
        (_message("ConfigMap", b"\x0a"), 400),
    ],
    ids=["json", "unknown-kind", "unknown-field", "cut", "wire-type", "no-length"],
)
def test_protobuf_that_is_not_understood_is_refused(body: bytes, code: int) -> None:
    """Never silently lost."""
    with pytest.raises(StatusError) as refused:
        decode_body(body)
    assert refused.value.code == code


def test_published_schema_names_every_kind(quiet: Sandbox) -> None:
    """What kubectl validates and merges with."""
    models = ask(quiet, "GET", "/openapi/v2").json()["definitions"].values()
    kinds = {model["x-kubernetes-group-version-kind"][0]["kind"] for model in models}
    assert {"Node", "Lease", "Kustomization", "HelmRelease"} <= kinds
    paths = ask(quiet, "GET", "/openapi/v3").json()["paths"]
    schema = ask(quiet, "GET", paths["apis/coordination.k8s.io/v1"]["serverRelativeURL"]).json()
    assert "fieldValidation" in json.dumps(schema["paths"])
    assert ask(quiet, "GET", "/openapi/v3/apis/none/v1").status == 404
    assert ask(quiet, "GET", "/openapi/v9").status == 404


def test_events_are_one_seen_through_two_groups(quiet: Sandbox) -> None:
    """Written as events.k8s.io, read as core, and the other way round."""
    base = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Node", "name": "w"},
        "note": "cordoned",
        "reason": "Fenced",
        "action": "Fence",
        "type": "Normal",
        "reportingInstance": "x",
        "reportingController": "fencectl.dev/fencectl",
    }
    assert ask(quiet, "POST", base, event).json()["note"] == "cordoned"
    core = ask(quiet, "GET", "/api/v1/namespaces/default/events/e").json()
    assert (core["message"], core["involvedObject"]["name"]) == ("cordoned", "w")
    path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dw"
    assert len(ask(quiet, "GET", path).json()["items"]) == 1
    seen = ask(quiet, "GET", f"{base}/e").json()
    assert (seen["apiVersion"], seen["regarding"]["name"]) == ("events.k8s.io/v1", "w")
    watch = ask(quiet, "GET", f"{base}?watch=1").stream
    assert watch is not None
    assert json.loads(watch.poll()[0])["object"]["note"] == "cordoned"


def test_resource_is_found_by_any_of_its_names() -> None:
    """Plural, singular, kind, short name, with group and version."""
    table = ResourceTable()
    table.add(flux_resources())
    for name in ("kustomizations", "Kustomization", "ks", "ks.kustomize.toolkit.fluxcd.io"):
        assert table.of(name).kind == "Kustomization"
    with pytest.raises(KeyError):
        table.of_object(api_version="v1", kind="Nothing")
