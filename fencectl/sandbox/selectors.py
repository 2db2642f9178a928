"""Label and field selectors: the full label syntax, and only those fields that the real server supports."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fencectl.sandbox.gojson import Obj, encode, quote
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.status import StatusError, bad_request
from fencectl.sandbox.validation import label_key_problems, label_value_problems

Matcher = Callable[[Obj], bool]

_TOKEN = re.compile(r"[ \t\n\r]*(?P<text>[=!<>]{1,2}|[(),]|[^\s=!<>(),]+|$)")
_OPERATORS = ("=", "==", "!=", ">", "<", "in", "notin")


def labels_of(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


def label_matcher(selector: str) -> Matcher:
    """Compile a label selector; a malformed one is a 400."""
    tests = _Parser(selector).requirements()
    return lambda obj: all(test(labels_of(obj)) for test in tests)


LabelTest = Callable[[dict[str, str]], bool]


class _Parser:
    """Reads a label selector, and stumbles over the same part as the server does."""

    def __init__(self, selector: str) -> None:
        self._tokens = _tokens(selector)
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def requirements(self) -> list[LabelTest]:
        tests: list[LabelTest] = []
        while True:
            part = self._peek()
            if not part:
                return tests
            if part != "!" and not _is_word(part):
                raise bad_request(f"found '{part}', expected: !, identifier, or 'end of string'")
            tests.append(self._requirement())
            part = self._next()
            if not part:
                return tests
            if part != ",":
                raise bad_request(f"found '{part}', expected: ',' or 'end of string'")
            part = self._peek()
            if part != "!" and not _is_word(part):
                raise bad_request(f"found '{part}', expected: identifier after ','")

    def _refuse(self, why: str) -> StatusError:
        return bad_request(f"unable to parse requirement: {why}")

    def _requirement(self) -> LabelTest:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if not _is_word(key):
            raise self._refuse(f"found '{key}', expected: identifier")
        self._check([f"<nil>: {text}" for text in label_key_problems(key)])
        if self._peek() in ("", ","):
            return (lambda labels: key not in labels) if absent else (lambda labels: key in labels)
        operator = self._next()
        if operator not in _OPERATORS:
            raise self._refuse(f"found '{operator}', expected: in, notin, =, ==, !=, >, <")
        values = self._values() if operator in ("in", "notin") else [self._value()]
        for index, value in enumerate(sorted(values)):
            self._check([f"values[{index}][{key}]: {text}" for text in label_value_problems(value)])
        if operator in ("in", "=", "=="):
            return lambda labels: labels.get(key) in values
        if operator in ("notin", "!="):
            return lambda labels: key not in labels or labels[key] not in values
        return self._number(key, operator, values[0])

    def _check(self, problems: list[str]) -> None:
        if problems:
            raise self._refuse(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")

    def _number(self, key: str, operator: str, value: str) -> LabelTest:
        if not _NUMBER.fullmatch(value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise self._refuse(f"values[0]: Invalid value: {quote(value)}: {why}")
        limit = int(value)

        def test(labels: dict[str, str]) -> bool:
            have = labels.get(key, "")
            if not _NUMBER.fullmatch(have):
                return False
            return int(have) > limit if operator == ">" else int(have) < limit

        return test

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        part = self._next()
        if not _is_word(part):
            raise self._refuse(f"found '{part}', expected: identifier")
        return part

    def _values(self) -> list[str]:
        part = self._next()
        if part != "(":
            raise self._refuse(f"found '{part}' expected: '('")
        values: list[str] = []
        word = ""
        while True:
            part = self._next()
            if part == ")":
                return [*values, word]
            if part == ",":
                values.append(word)
                word = ""
            elif _is_word(part):
                word = part
                if self._peek() not in (",", ")"):
                    raise self._refuse(f"found '{self._peek()}', expected: ',' or ')'")
            else:
                raise self._refuse(f"found '{part}', expected: ',', or identifier")


_NUMBER = re.compile(r"[-+]?\d+")


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in "=!<>(),"


def _tokens(selector: str) -> list[str]:
    """Split a selector; the last token is empty, the end of the string."""
    out = []
    for found in _TOKEN.finditer(selector):
        text = found["text"]
        if len(text) == 2 and text[0] in "=!<>" and text not in ("==", "!="):
            out += list(text)
        else:
            out.append(text)
        if not text:
            break
    return out


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
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        key, value, negative = found["key"], found["value"], found["op"] == "!="
        _check_field(key, resource=resource)
        tests.append(_field_test(key, value, negative=negative))
    return lambda obj: all(test(obj) for test in tests)


def _field_test(key: str, value: str, *, negative: bool) -> Matcher:
    return lambda obj: (field_text(obj, key) == value) != negative


def _check_field(key: str, *, resource: Resource) -> None:
    known = key == "metadata.name" or key in resource.field_selectors
    if not known and key == "metadata.namespace":
        # NB: cluster-scoped built-in kinds with selectors of their own do not know it; the others do.
        known = resource.namespaced or (not resource.custom and resource.plural not in ("nodes", "namespaces"))
    if known:
        return
    if resource.field_selectors or resource.custom:
        raise bad_request(f"field label not supported: {key}")
    raise bad_request(f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"')


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
