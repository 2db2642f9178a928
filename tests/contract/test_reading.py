"""
Lists and reads: pages, selectors, metadata only, tables, compression.

Aspects: shape of lists, of empty ones too · limit and continue · a snapshot under writes · expired tokens ·
resourceVersion · label selectors · representations and 406 · gzip.
"""

from __future__ import annotations

import gzip
import json

import pytest

from tests.contract.answers import ok, refused
from tests.support.clusters import (
    KUSTOMIZE,
    LEASES,
    NODES,
    Cluster,
    Raw,
    make_configmap,
    make_kustomization,
    make_lease,
    make_namespace,
    make_node,
    path_of,
)

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def _names(listed: Raw) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"] or []]


def _configmaps(cluster: Cluster, count: int, **keywords: object) -> tuple[str, list[str]]:
    """Make some in a namespace of their own; gives their collection and names."""
    namespace = make_namespace(cluster)
    names = [
        make_configmap(cluster, f"cm-{number}", namespace=namespace, data={"k": str(number)})["metadata"]["name"]
        for number in range(count)
    ]
    return f"/api/v1/namespaces/{namespace}/configmaps", names


def test_list_of_a_built_in_kind_has_a_kind_and_its_items_have_none(cluster: Cluster) -> None:
    """Whoever reads an item knows its kind from the list."""
    base, names = _configmaps(cluster, 2)
    listed = cluster.get(base)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert _names(listed) == names
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("/api/v1/namespaces/nowhere/configmaps", "ConfigMapList"),
        (f"{LEASES}/namespaces/nowhere/leases", "LeaseList"),
        (f"{KUSTOMIZE}/namespaces/nowhere/kustomizations", "KustomizationList"),
    ],
)
def test_list_in_a_missing_namespace_is_empty(cluster: Cluster, base: str, kind: str) -> None:
    """Not 404: an empty list does not prove that the namespace exists."""
    listed = cluster.get(base)
    assert (listed["kind"], listed["items"]) == (kind, [])


@pytest.mark.parametrize(
    "base", ["/api/v1/namespaces/nowhere/configmaps", f"{KUSTOMIZE}/namespaces/nowhere/kustomizations"]
)
def test_empty_list_of_metadata_has_null_items(cluster: Cluster, base: str) -> None:
    """A reader that wants a list gets none."""
    listed = ok(cluster.request("GET", base, accept=METADATA_LIST))
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed["items"] is None


@pytest.mark.parametrize("make", [make_node, make_kustomization], ids=["node", "kustomization"])
def test_list_of_metadata_has_no_spec(cluster: Cluster, make) -> None:  # type: ignore[no-untyped-def]
    """Annotations, labels, uid and managedFields are there."""
    obj = make(cluster, annotations={"fencectl.dev/holder": "x"}, labels={"a": "b"})
    base = path_of(obj).rpartition("/")[0]

    listed = ok(cluster.request("GET", base, accept=METADATA_LIST))

    (item,) = [one for one in listed["items"] if one["metadata"]["name"] == obj["metadata"]["name"]]
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert item["metadata"] == obj["metadata"]
    assert set(item) == {"kind", "apiVersion", "metadata"}


def test_single_object_as_metadata(cluster: Cluster) -> None:
    """The same for one."""
    node = make_node(cluster, annotations={"a": "b"})
    answer = cluster.request("GET", path_of(node), accept=METADATA)
    assert ok(answer)["kind"] == "PartialObjectMetadata"
    assert answer.json()["metadata"] == node["metadata"]
    assert "spec" not in answer.json()


def test_list_asked_for_as_single_metadata_is_not_acceptable(cluster: Cluster) -> None:
    """The pairing of list and single is strict, both ways."""
    node = make_node(cluster)
    refused(cluster.request("GET", NODES, accept=METADATA), 406, "NotAcceptable")
    refused(cluster.request("GET", path_of(node), accept=METADATA_LIST), 406, "NotAcceptable")


def test_unknown_representation_is_not_acceptable(cluster: Cluster) -> None:
    """With an acceptable one behind it, that one is given."""
    make_node(cluster)
    refused(cluster.request("GET", NODES, accept="application/xml"), 406, "NotAcceptable")
    ok(cluster.request("GET", NODES, accept="application/xml,application/json"))
    ok(cluster.request("GET", NODES, accept="*/*"))
    ok(cluster.request("GET", NODES, accept=None))


def test_metadata_with_json_as_the_fallback(cluster: Cluster) -> None:
    """What a careful client asks for."""
    make_node(cluster)
    listed = ok(cluster.request("GET", NODES, accept=f"{METADATA_LIST},application/json"))
    assert listed["kind"] == "PartialObjectMetadataList"


def test_table_has_columns_and_a_row_for_each_object(cluster: Cluster) -> None:
    """What kubectl prints; the object in a row is its metadata unless asked otherwise."""
    base, names = _configmaps(cluster, 2)
    table = ok(cluster.request("GET", base, accept=TABLE))
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [[name, 1] for name in names]
    assert {row["object"]["kind"] for row in table["rows"]} == {"PartialObjectMetadata"}


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
def test_table_includes_what_is_asked_for(cluster: Cluster, include: str, kind: str | None) -> None:
    """`includeObject` decides."""
    base, _names = _configmaps(cluster, 1)
    table = ok(cluster.request("GET", base, accept=TABLE, query={"includeObject": include}))
    obj = table["rows"][0].get("object")
    assert (obj or {}).get("kind") == kind


def test_table_of_a_custom_resource_has_the_columns_of_its_crd(cluster: Cluster) -> None:
    """Name and age, and the printer columns."""
    obj = make_kustomization(cluster)
    table = ok(cluster.request("GET", path_of(obj), accept=TABLE))
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age", "Ready", "Status"]
    assert table["rows"][0]["cells"][0] == obj["metadata"]["name"]


def test_pages_give_every_object_once(cluster: Cluster) -> None:
    """An empty or absent `continue` is the end, and nothing else is."""
    base, names = _configmaps(cluster, 5)
    seen, token, versions, remaining = [], "", set(), []
    while True:
        page = cluster.get(base, limit=2, **({"continue": token} if token else {}))
        seen += _names(page)
        versions.add(page["metadata"]["resourceVersion"])
        remaining.append(page["metadata"].get("remainingItemCount"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == names
    assert len(versions) == 1
    assert remaining == [3, 1, None]


def test_pages_of_a_custom_resource(cluster: Cluster) -> None:
    """On these lists `continue` is always there, and empty at the end."""
    namespace = make_namespace(cluster)
    for number in range(3):
        make_kustomization(cluster, f"ks-{number}", namespace=namespace)
    base = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations"
    first = cluster.get(base, limit=2)
    second = cluster.get(base, limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(first) + _names(second) == ["ks-0", "ks-1", "ks-2"]
    assert second["metadata"]["continue"] == ""


def test_pages_with_a_selector_do_not_count_what_remains(cluster: Cluster) -> None:
    """The count would be a lie."""
    namespace = make_namespace(cluster)
    for number in range(4):
        make_configmap(
            cluster, f"cm-{number}", namespace=namespace, labels={"pick": "yes" if number % 2 else "no"}
        )
    base = f"/api/v1/namespaces/{namespace}/configmaps"
    page = cluster.get(base, limit=1, labelSelector="pick=yes")
    assert _names(page) == ["cm-1"]
    assert "remainingItemCount" not in page["metadata"]
    rest = cluster.get(base, limit=5, labelSelector="pick=yes", **{"continue": page["metadata"]["continue"]})
    assert _names(rest) == ["cm-3"]


def test_pages_of_metadata(cluster: Cluster) -> None:
    """Representation and paging go together."""
    base, names = _configmaps(cluster, 3)
    first = ok(cluster.request("GET", base, accept=METADATA_LIST, query={"limit": 2}))
    query = {"limit": 2, "continue": first["metadata"]["continue"]}
    second = ok(cluster.request("GET", base, accept=METADATA_LIST, query=query))
    assert _names(first) + _names(second) == names


def test_pages_show_the_moment_of_the_first(cluster: Cluster) -> None:
    """What is made, changed and deleted meanwhile is not seen."""
    base, names = _configmaps(cluster, 4)
    first = cluster.get(base, limit=1)
    namespace = base.split("/")[4]
    make_configmap(cluster, "cm-2-new", namespace=namespace)
    ok(cluster.request("DELETE", f"{base}/cm-2"))
    ok(cluster.merge_patch(f"{base}/cm-3", {"data": {"k": "changed"}}))

    rest = cluster.get(base, limit=10, **{"continue": first["metadata"]["continue"]})

    assert _names(first) + _names(rest) == names
    assert rest["items"][-1]["data"] == {"k": "3"}
    assert "cm-2-new" in _names(cluster.get(base))


def test_expired_token_is_gone_and_offers_to_go_on_inconsistently(cluster: Cluster) -> None:
    """410 `Expired`; whoever decides on ownership starts again from the first page."""
    namespace = make_namespace(cluster)
    for number in range(3):
        make_kustomization(cluster, f"ks-{number}", namespace=namespace)
    base = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations"
    token = cluster.expire(cluster.get(base, limit=1)["metadata"]["continue"])

    answer = cluster.request("GET", base, query={"limit": 1, "continue": token})

    status = refused(answer, 410, "Expired")
    assert status["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    on = cluster.get(base, limit=5, **{"continue": status["metadata"]["continue"]})
    assert _names(on) == ["ks-1", "ks-2"]
    assert _names(cluster.get(base)) == ["ks-0", "ks-1", "ks-2"]


def test_token_that_is_no_token_is_a_bad_request(cluster: Cluster) -> None:
    """Not 410: starting again does not mend it."""
    base, _names = _configmaps(cluster, 1)
    refused(cluster.request("GET", base, query={"limit": 1, "continue": "nonsense"}), 400, "BadRequest")


def test_limit_is_ignored_at_version_zero(cluster: Cluster) -> None:
    """`resourceVersion=0` reads what the cache has, whole."""
    base, names = _configmaps(cluster, 3)
    cluster.get(base)
    listed = cluster.get(base, limit=1, resourceVersion=0)
    assert _names(listed) == names
    assert not listed["metadata"].get("continue")


def test_list_not_older_than_a_version(cluster: Cluster) -> None:
    """A version that was seen is served at once, newer things included."""
    base, names = _configmaps(cluster, 2)
    seen = cluster.get(base)["metadata"]["resourceVersion"]
    make_configmap(cluster, "cm-new", namespace=base.split("/")[4])
    listed = cluster.get(base, resourceVersion=seen)
    assert set(_names(listed)) >= set(names)
    exact = cluster.get(base, resourceVersion=seen, resourceVersionMatch="Exact")
    assert _names(exact) == names


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ({"resourceVersion": "abc"}, 400, "BadRequest"),
        ({"limit": "x"}, 400, "BadRequest"),
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"labelSelector": "a in b"}, 400, "BadRequest"),
    ],
    ids=["version", "limit", "match-alone", "label-selector"],
)
def test_list_options_that_make_no_sense_are_refused(
    cluster: Cluster, query: dict[str, str], code: int, reason: str
) -> None:
    """Rather than read as something else."""
    refused(cluster.request("GET", NODES, query=query), code, reason)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("env=prod", ["a"]),
        ("env==prod", ["a"]),
        ("env!=prod", ["b", "c"]),
        ("env", ["a", "b"]),
        ("!env", ["c"]),
        ("env in (prod,test)", ["a", "b"]),
        ("env notin (prod)", ["b", "c"]),
        ("env,env!=test", ["a"]),
        ("tier=,env", []),
        ("x.dev/y=1", ["c"]),
        ("n>1", ["b"]),
    ],
)
def test_label_selector_picks(cluster: Cluster, selector: str, expected: list[str]) -> None:
    """The whole grammar, on absent labels too."""
    namespace = make_namespace(cluster)
    labels = {"a": {"env": "prod", "n": "1"}, "b": {"env": "test", "n": "2"}, "c": {"x.dev/y": "1"}}
    for name, chosen in labels.items():
        make_configmap(cluster, name, namespace=namespace, labels=chosen)
    base = f"/api/v1/namespaces/{namespace}/configmaps"
    assert _names(cluster.get(base, labelSelector=selector)) == expected


def test_lists_are_ordered_by_namespace_and_name(cluster: Cluster) -> None:
    """The order of the keys in storage."""
    prefix = cluster.unique("order")
    for namespace, name in ((f"{prefix}-b", "a"), (f"{prefix}-a", "z"), (f"{prefix}-a", "b")):
        make_lease(cluster, name, namespace=namespace)
    everywhere = [
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in cluster.get(f"{LEASES}/leases")["items"]
        if item["metadata"]["namespace"].startswith(prefix)
    ]
    assert everywhere == [(f"{prefix}-a", "b"), (f"{prefix}-a", "z"), (f"{prefix}-b", "a")]


def test_large_answers_are_compressed_for_who_asks(cluster: Cluster) -> None:
    """Only with Accept-Encoding, and only large ones."""
    namespace = make_namespace(cluster)
    for number in range(2):
        make_configmap(cluster, f"cm-{number}", namespace=namespace, data={"k": "x" * 100_000})
    base = f"/api/v1/namespaces/{namespace}/configmaps"

    plain = cluster.request("GET", base)
    packed = cluster.request("GET", base, headers={"Accept-Encoding": "gzip"})

    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["items"] == plain.json()["items"]
    small = cluster.request("GET", f"{base}?limit=1", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in small.headers


def test_large_list_of_custom_resources_is_compressed(cluster: Cluster) -> None:
    """Flux lists too, in however many members."""
    namespace = make_namespace(cluster)
    for number in range(2):
        make_kustomization(cluster, f"ks-{number}", namespace=namespace, annotations={"k": "x" * 100_000})
    base = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations"
    packed = cluster.request("GET", base, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert _names(json.loads(gzip.decompress(packed.body))) == ["ks-0", "ks-1"]


def test_curl_gets_indented_json(cluster: Cluster) -> None:
    """So sizes are never measured with curl."""
    path = path_of(make_node(cluster))
    answer = cluster.request("GET", path, headers={"User-Agent": "curl/8.0"})
    assert answer.text.startswith('{\n  "kind": "Node",\n')
    assert answer.json() == cluster.get(path)
    assert "\n  " in cluster.request("GET", path, query={"pretty": "true"}).text


def test_text_comes_back_encoded_as_go_does(cluster: Cluster) -> None:
    """The bytes that a guard is compared with."""
    path = path_of(make_configmap(cluster, annotations={"k": "<é>&\u2028🦀\b\x01\x7f"}))
    raw = cluster.request("GET", path).body.decode()
    assert '"k":"\\u003cé\\u003e\\u0026\\u2028🦀\\b\\u0001\x7f"' in raw


def test_missing_object_is_not_found_and_names_it(cluster: Cluster) -> None:
    """The Status of a GET."""
    name = cluster.unique("missing")
    status = refused(cluster.request("GET", f"{LEASES}/namespaces/default/leases/{name}"), 404, "NotFound")
    assert status["message"] == f'leases.coordination.k8s.io "{name}" not found'
    assert status["details"] == {"name": name, "group": "coordination.k8s.io", "kind": "leases"}
