"""Answers of the server: a refusal is not a failure, a failure is not a refusal, and a lost answer is neither."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fencectl.core.answers import Applied, Refused, Unknown, Why, explain_refusal, read_answer
from fencectl.core.refs import Seen
from fencectl.core.releases import Lifted, lift_cordon, lift_suspension
from tests.core.test_releases import journal_on
from tests.support.objects import marked_kustomization, marked_node

REJECTED = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"kind": "Node"}, Applied({"kind": "Node"})),
        (409, {"message": "conflict"}, Refused(Why.GUARD, 409, "conflict")),
        (422, {"message": REJECTED, "details": {}}, Refused(Why.GUARD, 422, REJECTED)),
        (422, {"message": REJECTED}, Refused(Why.GUARD, 422, REJECTED)),
        (
            500,
            {"message": "Testing value /metadata/uid failed"},
            Refused(Why.GUARD, 500, "Testing value /metadata/uid failed"),
        ),
        (
            422,
            {
                "message": 'Lease "x" is invalid: spec.leaseDurationSeconds: Invalid value: -5: must be greater than 0',
                "details": {"name": "x", "causes": [{"field": "spec.leaseDurationSeconds"}]},
            },
            Refused(
                Why.INVALID,
                422,
                'Lease "x" is invalid: spec.leaseDurationSeconds: Invalid value: -5: must be greater than 0',
                ("spec.leaseDurationSeconds",),
            ),
        ),
        (404, {"message": "gone"}, Refused(Why.GONE, 404, "gone")),
        (403, {"message": "no"}, Refused(Why.FORBIDDEN, 403, "no")),
        (401, {"message": "who"}, Refused(Why.FORBIDDEN, 401, "who")),
        (400, {"message": "bad"}, Refused(Why.INVALID, 400, "bad")),
        (413, "", Refused(Why.INVALID, 413, "")),
        (
            429,
            "Too many requests, please try again later.",
            Refused(Why.BUSY, 429, "Too many requests, please try again later."),
        ),
        (500, {"message": "etcd"}, Unknown("the server answered 500: etcd")),
        (504, "gateway", Unknown("the server answered 504: gateway")),
        (503, {"message": "x"}, Unknown("the server answered 503: x")),
        (200, "not an object", Unknown("the server answered 200: not an object")),
    ],
)
def test_case_35_each_answer_is_what_it_means(status: int, body: Any, expected: Any) -> None:
    """A refused guard has come as 409, 422 and 500; a validation error and an absent object are something else."""
    assert read_answer(status, body) == expected


def test_service_unavailable_with_retry_after_was_not_tried() -> None:
    """The server says so itself."""
    assert read_answer(503, "", retry_after=True) == Refused(Why.BUSY, 503, "")


def test_message_that_quotes_the_object_is_cut_to_its_reason() -> None:
    """The third kind of 422 holds the whole object, a Secret's data included."""
    body = {
        "message": ' "" is invalid: patch: Invalid value: "{\\"data\\":{\\"password\\":\\"aHVudGVyMg==\\"}}": strict decoding error: unknown field "spec.x"',
        "details": {"causes": [{"field": "patch"}]},
    }
    answer = read_answer(422, body)
    assert isinstance(answer, Refused)
    assert answer.detail == 'strict decoding error: unknown field "spec.x"'


def changed(seen: Seen, *keys: str, value: Any, managed: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    raw = copy.deepcopy(dict(seen.raw))
    where = raw
    for key in keys[:-1]:
        where = where[key]
    where[keys[-1]] = value
    if managed is not None:
        raw["metadata"]["managedFields"] = managed
    return raw


def patch_of(seen: Seen) -> Any:
    lift = lift_cordon if seen.ref.kind == "Node" else lift_suspension
    result = lift(seen, journal_on(seen))
    assert isinstance(result, Lifted)
    return result.patch


def test_refusal_names_the_field_the_values_and_who_changed_it() -> None:
    """The status alone proves nothing; the object as it is now tells."""
    seen = marked_kustomization()
    managed = [{"manager": "flux", "time": "2026-11-30T02:48:17Z", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]
    broken = explain_refusal(patch_of(seen), changed(seen, "spec", "suspend", value=False, managed=managed))
    assert broken
    assert (
        broken.sentence
        == "spec.suspend was true when read, now it is false; changed by `flux` at 2026-11-30T02:48:17Z"
    )


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (("spec", "unschedulable"), None, "spec.unschedulable was true when read, now it is absent"),
        (("metadata", "uid"), "x", "node/worker-2 was deleted and made anew under the same name"),
        (("metadata", "annotations", "fencectl.dev/holder"), "someone", "now it is `someone`"),
        (("metadata", "annotations", "fencectl.dev/holder"), "x" * 100, "now it is `" + "x" * 60 + "…`"),
    ],
)
def test_refusal_without_managed_fields_says_less_not_wrong(
    keys: tuple[str, ...], value: Any, sentence: str
) -> None:
    """A removed field has no owner, and managedFields may be absent."""
    seen = marked_node()
    broken = explain_refusal(patch_of(seen), changed(seen, *keys, value=value))
    assert broken
    assert broken.sentence.endswith(sentence)


def test_refusal_of_an_object_that_is_gone_or_unchanged() -> None:
    """Gone is an answer; unchanged means that the patch itself was at fault."""
    seen = marked_node()
    gone = explain_refusal(patch_of(seen), None)
    assert gone
    assert gone.sentence == "node/worker-2 is gone"
    assert explain_refusal(patch_of(seen), seen.raw) is None
