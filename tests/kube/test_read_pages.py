"""
Aspects: which objects of a page matter · malformed objects · bodies that are no list · continued pages ·
expired pages · typed and untyped decoding agree.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.pages import Listed, ListQuery, read_list
from fencectl.cluster.read import ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, PageDecoder
from tests.kube.scripted import DrivenClock, Scripted, listing, refusal, reply, thing

HOLDER, JOURNAL = "fencectl.dev/holder", "fencectl.dev/journal"
KEYS = (HOLDER, JOURNAL)
KIND = ListedKind("g.toolkit.fluxcd.io", "v1", "Thing", "things", namespaced=True)


def names(listed: Listed) -> list[str]:
    return [seen.ref.name for seen in listed.seen]


def read(getter: Scripted, **options: Any) -> Listed:
    reads = Reads(getter, clock=DrivenClock(), deadline_s=30)
    return read_list(reads, ListQuery(KIND, PageDecoder(KEYS), 2, **options))


def read_page(*items: Any) -> Listed:
    getter = Scripted()
    getter.on(KIND.path, reply(listing(*items)))
    return read(getter)


@pytest.mark.parametrize(
    ("obj", "matters"),
    [
        (thing("a"), False),
        (thing("a", spec={}), False),
        (thing("a", spec={"suspend": False}), False),
        (thing("a", spec={"suspend": None}), False),
        (thing("a", marks={}), False),
        (thing("a", marks={"other": "x"}), False),
        (thing("a", spec={"suspend": True}), True),
        (thing("a", marks={HOLDER: "x"}), True),
        (thing("a", marks={JOURNAL: "{}"}), True),
        (thing("a", marks={HOLDER: ""}), True),
        (thing("a", marks={HOLDER: "x"}, spec={"suspend": False}), True),
    ],
)
def test_object_is_kept_where_it_is_marked_or_suspended(obj: dict[str, Any], matters: bool) -> None:
    """case_14, case_22: either mark alone counts, an empty one too, and a suspension without any."""
    assert names(read_page(obj)) == (["a"] if matters else [])


@pytest.mark.parametrize(
    "bad",
    [
        thing("bad", marks={HOLDER: None}),
        thing("bad", marks={HOLDER: 7}),
        thing("bad", marks={HOLDER: {"x": []}, "other": 1}),
        thing("bad", spec={"suspend": "yes"}),
        thing("bad", spec={"suspend": 1}),
        thing("bad", spec={"suspend": []}),
        {"metadata": {"name": "bad", "uid": 7, "annotations": {HOLDER: "x"}}},
        {"metadata": {"name": "bad", "namespace": 7, "annotations": {HOLDER: "x"}}},
        {"metadata": {"name": "bad", "annotations": {HOLDER: "x"}}, "spec": "text"},
    ],
)
def test_malformed_object_that_matters_is_kept_with_those_after_it(bad: dict[str, Any]) -> None:
    """A wrong type neither raises, nor hides the object, nor those behind it."""
    assert names(read_page(bad, thing("later", spec={"suspend": True}))) == ["bad", "later"]


@pytest.mark.parametrize(
    "bad",
    [
        thing("bad", marks=[HOLDER]),
        thing("bad", marks="text"),
        {"metadata": None},
        {"metadata": {"name": ""}, "spec": {"suspend": True}},
        {"metadata": {"name": 7}},
        "text",
        7,
        None,
        [],
    ],
)
def test_object_that_cannot_be_judged_is_named_and_hides_nothing(bad: Any) -> None:
    """Where it cannot be told whether an object is marked, the list says so, and the rest still counts."""
    listed = read_page(bad, thing("later", spec={"suspend": True}))
    assert names(listed) == ["later"]
    assert len(listed.malformed) == 1
    assert listed.count == 2


@pytest.mark.parametrize("harmless", [thing("fine", spec=None), {**thing("fine"), "metadata": {"name": "fine"}}])
def test_object_without_a_spec_or_uid_is_no_problem(harmless: dict[str, Any]) -> None:
    """What is absent is not malformed."""
    listed = read_page(harmless)
    assert (listed.count, listed.seen, listed.malformed) == (1, (), ())


def test_kept_object_looks_like_a_single_read() -> None:
    """Items of a list carry no kind; what is kept has it, and everything else as it was."""
    obj = thing("a", "ns", marks={HOLDER: "x"}, spec={"suspend": True, "deep": [1, {"é": "&"}]}, status={"x": 1})
    (seen,) = read_page(thing("b"), obj).seen
    assert seen.raw == {"apiVersion": "g.toolkit.fluxcd.io/v1", "kind": "Thing", **obj}
    assert seen.ref.display == "thing/ns/a"
    assert (seen.ref.uid, seen.ref.plural) == ("uid-of-a", "things")


def test_text_that_is_not_utf8_hides_nothing() -> None:
    """A byte that is no UTF-8 is shown as such; the object is there all the same."""
    getter = Scripted()
    body = json.dumps(listing(thing("a", marks={HOLDER: "??"}), thing("b", spec={"suspend": True})))
    getter.on(KIND.path, reply(body.encode().replace(b"??", b"\xff")))
    listed = read(getter)
    assert names(listed) == ["a", "b"]
    assert listed.seen[0].raw["metadata"]["annotations"] == {HOLDER: "\ufffd"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "null",
        "[]",
        "<html>",
        '{"kind": "Status", "status": "Success"}',
        '{"items": {}}',
        '{"items": [',
        json.dumps(listing(thing("a")))[:-3],
        '{"items":' + "[" * 100_000,
        '{"items":[{"metadata":{"name":"a","annotations":{"fencectl.dev/holder":'
        + "[" * 5000
        + "]" * 5000
        + "}}}]}",
    ],
)
def test_body_that_is_no_list_is_a_failure_and_not_an_empty_list(body: str) -> None:
    """Nothing that a proxy, a cut connection or an attacker sends may read as "nothing there"."""
    getter = Scripted()
    getter.on(KIND.path, reply(body))
    with pytest.raises(ReadFailedError, match="could not be decoded"):
        read(getter)


def test_empty_list_that_says_null_is_empty() -> None:
    """An empty list of metadata says `"items":null`."""
    getter = Scripted()
    getter.on(KIND.path, reply({**listing(), "items": None}))
    assert read(getter) == Listed(version="7")


def test_list_that_is_not_served_is_missing_and_not_a_failure() -> None:
    """A kind that went away since it was discovered is not installed."""
    assert read(Scripted()).missing


def test_pages_are_followed_until_there_is_no_token() -> None:
    """A short or empty page is not the end; only an absent token is."""
    getter = Scripted()
    pages = {
        "": listing(thing("a", spec={"suspend": True}), token="1"),
        "1": listing(token="2"),
        "2": listing(thing("b", spec={"suspend": True})),
    }
    getter.on(KIND.path, lambda query: reply(pages[query.get("continue", "")]))
    listed = read(getter, selector=(("labelSelector", "x"),))
    assert names(listed) == ["a", "b"]
    assert listed.count == 2
    assert [query for _, query in getter.requests] == [
        {"labelSelector": "x", "limit": "2"},
        {"labelSelector": "x", "limit": "2", "continue": "1"},
        {"labelSelector": "x", "limit": "2", "continue": "2"},
    ]


def test_expired_list_is_read_again_from_its_first_page() -> None:
    """What was read before the expiry is of another moment, so it is dropped; the offered token is not used."""
    getter = Scripted()
    rounds: list[str] = []

    def serve(query: dict[str, str]) -> Any:
        if "continue" not in query:
            rounds.append("first")
            suspended = thing(f"round-{len(rounds)}", spec={"suspend": True})
            return reply(listing(suspended, token="next"))
        if len(rounds) == 1:
            expired = {
                "kind": "Status",
                "code": 410,
                "reason": "Expired",
                "metadata": {"continue": "inconsistent"},
            }
            return reply(expired, 410)
        return reply(listing(thing("end", spec={"suspend": True})))

    getter.on(KIND.path, serve)
    assert names(read(getter)) == ["round-2", "end"]
    assert "inconsistent" not in str(getter.requests)


def test_list_that_always_expires_is_a_failure_after_a_few_rounds() -> None:
    """The rounds are bounded."""
    getter = Scripted()
    getter.on(KIND.path, refusal(410, "too old", "Expired"))
    with pytest.raises(ReadFailedError, match="expired"):
        read(getter)
    assert len(getter.requests) == 3


_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_MARKS = st.none() | st.dictionaries(st.sampled_from([*KEYS, "other"]), _VALUES, max_size=3)
_SPECS = st.none() | st.dictionaries(st.sampled_from(["suspend", "path"]), _VALUES, max_size=2)
_OBJECTS = st.builds(
    lambda name, namespace, marks, spec: thing(name, namespace, marks=marks) | {"spec": spec},
    st.text("abc", min_size=1, max_size=3),
    st.none() | st.text("abc", min_size=1, max_size=3),
    _MARKS,
    _SPECS,
)


@given(st.lists(_OBJECTS, max_size=4), st.sampled_from(["", "next"]))
def test_typed_and_untyped_decoding_agree(objects: list[dict[str, Any]], token: str) -> None:
    """One bad object in a page must not change what is said of the others."""
    good = json.dumps(listing(*objects, token=token)).encode()
    bad = json.dumps(listing(*objects, {"metadata": {"name": "bad", "uid": []}}, token=token)).encode()
    decoder = PageDecoder(KEYS)
    typed, untyped = decoder.decode(good), decoder.decode(bad)
    assert typed.items == untyped.items
    assert list(typed.wholes()) == list(untyped.wholes())
    assert (typed.has_suspend, typed.continue_token) == (untyped.has_suspend, untyped.continue_token)
    assert typed.malformed == untyped.malformed == ()


def test_list_is_no_object() -> None:
    """A single object that is an array is refused by the decoder."""
    with pytest.raises(BadPageError):
        PageDecoder(KEYS).decode(b"[1]")
