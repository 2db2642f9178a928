"""Reviews: who am I, and what may I do."""

from __future__ import annotations

from fencectl.sandbox import status
from fencectl.sandbox.fields import compare, to_fields_v1
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.requests import Action
from fencectl.sandbox.schema import ANY
from fencectl.sandbox.users import User


def review(kind: str, *, body: Obj, user: User, created_at: str, manager: str) -> Obj:
    """Answer one review."""
    if kind == "SelfSubjectReview":
        info: Obj = {"username": user.name}
        if user.uid:
            info["uid"] = user.uid
        info["groups"] = list(user.groups)
        return {
            "kind": kind,
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": created_at},
            "status": {"userInfo": info},
        }
    base: Obj = {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    spec = body.get("spec") or {}
    if kind == "SelfSubjectRulesReview":
        rules = [
            {"verbs": list(rule.verbs), "apiGroups": ["*"], "resources": list(rule.resources)}
            for rule in user.rules
        ]
        return {
            **base,
            "spec": {},
            "status": {"resourceRules": rules, "nonResourceRules": [], "incomplete": False},
        }
    asked = spec.get("resourceAttributes")
    if asked is None and spec.get("nonResourceAttributes") is None:
        raise status.invalid(
            # NB: the real server leaves the kind out here.
            "",
            group="authorization.k8s.io",
            name="",
            causes=[
                status.Cause(
                    "FieldValueInvalid",
                    "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
                    "specified",
                    "spec",
                )
            ],
        )
    if asked is None:
        allowed = True
    else:
        action = Action(
            verb=asked.get("verb", ""),
            resource=asked.get("resource", ""),
            group=asked.get("group", ""),
            version=asked.get("version", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
            subresource=asked.get("subresource", ""),
        )
        allowed = user.may(action)
    owner = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "authorization.k8s.io/v1",
        "time": created_at,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(frozenset(compare(ANY, {"spec": {}}, {"spec": spec}).added)),
    }
    return {**base, "metadata": {"managedFields": [owner]}, "spec": spec, "status": {"allowed": allowed}}
