"""Label and field selectors: the full label syntax, and only those fields that the real server supports."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fencectl.sandbox.gojson import Obj, encode, quote
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.status import bad_request

Matcher = Callable[[Obj], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s=!,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s=!<>,()]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s=!<>,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s=!<>,()]+)\s*$")
_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")


def _split(selector: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(selector):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(selector[start:index])
            start = index + 1
    parts.append(selector[start:])
    return parts


def labels_of(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


def label_matcher(selector: str) -> Matcher:
    """Compile a label selector; a malformed one is a 400."""
    if not selector.strip():
        return lambda obj: True
    tests = [_label_test(part, selector=selector) for part in _split(selector)]
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def _label_test(part: str, *, selector: str) -> Callable[[dict[str, str]], bool]:
    found = _SET.match(part)
    if found:
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        _check(key, *values, selector=selector)
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    found = _EQUAL.match(part)
    if found:
        key, value, op = found["key"], found["value"], found["op"]
        _check(key, value, selector=selector)
        if op == "!=":
            return lambda labels: labels.get(key) != value
        if op in "<>":
            return _number_test(key, op, value)
        return lambda labels: labels.get(key) == value
    found = _EXISTS.match(part)
    if found:
        key = found["key"]
        _check(key, selector=selector)
        return (lambda labels: key not in labels) if found["not"] else (lambda labels: key in labels)
    raise bad_request(f"unable to parse requirement: found '{part.strip()}', expected: identifier")


def _number_test(key: str, op: str, value: str) -> Callable[[dict[str, str]], bool]:
    limit = int(value)

    def test(labels: dict[str, str]) -> bool:
        have = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", have):
            return False
        return int(have) > limit if op == ">" else int(have) < limit

    return test


def _check(key: str, *values: str, selector: str) -> None:
    if not _KEY.match(key):
        raise bad_request(
            f"unable to parse requirement: <nil>: Invalid value: {quote(key)}: name part must consist of alphanumeric "
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        )
    for value in values:
        if not _VALUE.match(value):
            raise bad_request(
                f"unable to parse requirement: values[0][{key}]: Invalid value: {quote(value)}: a valid label must be an "
                "empty string or consist of alphanumeric characters, '-', '_' or '.'"
            )


def selector_matcher(selector: Any) -> Callable[[dict[str, str]], bool]:
    """Compile a LabelSelector object; None selects nothing, an empty one everything."""
    if selector is None:
        return lambda labels: False
    wanted: dict[str, str] = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []

    def test(labels: dict[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        for expression in expressions:
            key, op, values = expression["key"], expression["operator"], expression.get("values") or []
            have = labels.get(key)
            ok = {
                "In": have in values,
                "NotIn": have not in values,
                "Exists": have is not None,
                "DoesNotExist": have is None,
            }[op]
            if not ok:
                return False
        return True

    return test


def field_matcher(selector: str, *, resource: Resource) -> Matcher:
    """Compile a field selector; a field that the server does not index is a 400."""
    if not selector.strip():
        return lambda obj: True
    tests: list[Matcher] = []
    for part in selector.split(","):
        found = re.match(r"^(?P<key>[^=!]+)(?P<op>==|=|!=)(?P<value>.*)$", part)
        if not found:
            raise bad_request(f'invalid selector: {quote(selector)}; can\'t understand {quote(part)}')
        key, value, negative = found["key"], found["value"], found["op"] == "!="
        _check_field(key, resource=resource)
        tests.append(lambda obj, key=key, value=value, negative=negative: (field_text(obj, key) == value) != negative)  # type: ignore[misc]
    return lambda obj: all(test(obj) for test in tests)


def _check_field(key: str, *, resource: Resource) -> None:
    known = key == "metadata.name" or key in resource.field_selectors
    if not known and key == "metadata.namespace":
        # NB: cluster-scoped built-in kinds with selectors of their own do not know it; the others do.
        known = resource.namespaced or not resource.custom and resource.plural not in ("nodes", "namespaces")
    if known:
        return
    if resource.field_selectors and not resource.custom:
        raise bad_request(f"field label not supported: {key}")
    kind = resource.kind
    if resource.custom:
        raise bad_request(f"field label not supported: {key}")
    raise bad_request(f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"' if kind else "")


def field_text(obj: Obj, key: str) -> str:
    """Return the text that a field selector compares with."""
    if key == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if key in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    if value is None:
        return "0" if key == "status.successful" else ""
    return value if isinstance(value, str) else encode(value)
