"""
From the text of a manifest file to plain documents, each with its line: YAML as Go reads it, or JSON.

Nothing that a document holds is ever quoted in an error, since it may be a Secret. What readers disagree about is
refused with its line: repeated keys, numbers that JSON has not, keys that are no text, aliases without end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fencectl.core.errors import UsageError
from fencectl.core.gojson import StrictJSONError, decode_stream
from fencectl.core.goyaml import explain, loader_class

NOTHING = "Nothing was read or changed"

# As much as etcd would never take in one deploy; whatever is larger is another file than was meant.
MAX_BYTES = 64 * 1024 * 1024
_MAX_DEPTH = 100
_MAX_NODES = 4_000_000
_YAML_TAG = "tag:yaml.org,2002:"
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ManifestError(UsageError):
    """A manifest that cannot be used. `where`: file and line, `problem`: what is wrong there."""

    def __init__(self, where: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{where}: {problem}", hint=f"{hint}. {NOTHING}" if hint else NOTHING)
        self.where = where
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, the line it begins on, and the lines of what it lists under `items`."""

    value: Any
    line: int
    item_lines: tuple[int, ...] = ()


def read_documents(text: bytes, *, shown: str) -> tuple[Document, ...]:
    """
    Read all documents of a file; empty ones are left out. `shown` is how an error calls the file.

    Raises ManifestError.
    """
    if len(text) > MAX_BYTES:
        raise ManifestError(shown, f"{len(text)} bytes are no manifest")
    decoded = _decode(text.removeprefix(b"\xef\xbb\xbf"), shown=shown)
    if decoded.lstrip()[:1] != "{":
        return _read_yaml(decoded, shown=shown)
    try:
        return tuple(Document(value, _line_at(decoded, at)) for at, value in decode_stream(decoded))
    except StrictJSONError as broken:
        failed = ManifestError(f"{shown}:{_line_at(decoded, broken.at)}", str(broken))
    if failed.problem == "not JSON":
        # NB: YAML in flow style begins like JSON, and so does JSON with `---` between its values.
        try:
            return _read_yaml(decoded, shown=shown)
        except ManifestError as also:
            if also.problem.startswith("duplicate key"):
                raise
    raise failed


def _decode(text: bytes, *, shown: str) -> str:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as bad:
        line = text[: bad.start].count(b"\n") + 1
        raise ManifestError(f"{shown}:{line}", "not UTF-8 text") from None
    if (bad_at := _UNREADABLE.search(decoded)) is not None:
        where = f"{shown}:{_line_at(decoded, bad_at.start())}"
        raise ManifestError(where, f"the character U+{ord(bad_at[0]):04X} is in no manifest")
    return decoded


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _read_yaml(text: str, *, shown: str) -> tuple[Document, ...]:
    import yaml

    loader = None
    found: list[Document] = []
    try:
        _check_depth(text, shown=shown)
        loader = loader_class()(text)
        reader = _Reader(loader, shown)
        while loader.check_node():
            node = loader.get_node()
            value = reader.value(node)
            if value is not None:
                found.append(Document(value, _line_of(node), _item_lines(node)))
    except yaml.MarkedYAMLError as error:
        line, why = explain(error, text.encode())
        raise ManifestError(shown if line is None else f"{shown}:{line}", why) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ManifestError(shown, "not valid YAML") from None
    finally:
        if loader is not None:
            loader.dispose()
    return tuple(found)


def _check_depth(text: str, *, shown: str) -> None:
    """Walk the events, which needs no recursion, before anything is composed, which does."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader_class()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ManifestError(f"{shown}:{_line_of(event)}", "nested too deep for a manifest")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_of(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _item_lines(node: Any) -> tuple[int, ...]:
    if node.id != "mapping":
        return ()
    for key, value in node.value:
        if key.id == "scalar" and key.value == "items" and value.id == "sequence":
            return tuple(_line_of(item) for item in value.value)
    return ()


class _Reader:
    """Makes plain values of PyYAML's nodes. What an alias repeats is made once, and counted each time."""

    def __init__(self, loader: Any, shown: str) -> None:
        self._loader = loader
        self._shown = shown
        self._made: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        # NB: `id` names a node only as long as it lives.
        self._alive: list[Any] = []

    def value(self, node: Any) -> Any:
        """The value of a document."""
        return self._value(node, depth=0)[0]

    def _value(self, node: Any, *, depth: int) -> tuple[Any, int]:
        """The value, and how many nodes it has with all that its aliases repeat."""
        if id(node) in self._made:
            return self._made[id(node)]
        if id(node) in self._open or depth > _MAX_DEPTH:
            raise self._error(node, "an alias contains itself")
        self._open.add(id(node))
        found: tuple[Any, int]
        if node.id == "mapping":
            found = self._mapping(node, depth=depth)
        elif node.id == "sequence":
            parts = [self._value(item, depth=depth + 1) for item in node.value]
            found = [value for value, _ in parts], 1 + sum(size for _, size in parts)
        else:
            found = self._scalar(node), 1
        if found[1] > _MAX_NODES:
            raise self._error(node, "aliases repeat without end, or almost")
        self._open.discard(id(node))
        self._made[id(node)] = found
        self._alive.append(node)
        return found

    def _mapping(self, node: Any, *, depth: int) -> tuple[dict[str, Any], int]:
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[dict[str, Any]] = []
        size = 1
        for key, value in node.value:
            if key.tag == f"{_YAML_TAG}merge":
                for other in value.value if value.id == "sequence" else [value]:
                    taken, more = self._value(other, depth=depth + 1)
                    if not isinstance(taken, dict):
                        raise self._error(key, "`<<` takes a mapping, or a list of them")
                    merged.append(taken)
                    size += more
                continue
            name = self._key(key)
            if name in own:
                raise self._error(key, f"duplicate key, first on line {lines[name]}")
            lines[name] = _line_of(key)
            own[name], more = self._value(value, depth=depth + 1)
            size += more
        for taken in merged:
            for name, item in taken.items():
                own.setdefault(name, item)
        return own, size

    def _key(self, node: Any) -> str:
        """A key as text, as Go makes one of a number or a boolean."""
        if node.id == "scalar":
            value = self._scalar(node)
            if isinstance(value, str):
                return value
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, int | float):
                return str(value)
        raise self._error(node, "a key must be text")

    def _scalar(self, node: Any) -> Any:
        try:
            value = self._loader.construct_object(node)
        except ValueError:
            raise self._error(node, "a value that cannot be read") from None
        if isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
                raise self._error(node, "a number that JSON has not")
            # NB: Go writes 1e3 as 1000, and only that is an integer to the API.
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        if value is None or isinstance(value, str | int | bool):
            return value
        raise self._error(node, "a value that JSON has not")

    def _error(self, node: Any, problem: str) -> ManifestError:
        return ManifestError(f"{self._shown}:{_line_of(node)}", problem)
