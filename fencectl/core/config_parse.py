"""
The schema of `fencectl.yaml`, key by key.

A table of parsers: a new key is one line in `_SECTIONS` and one field in `fencectl.core.config`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from fencectl.core.config import (
    AfterRollback,
    Certify,
    Config,
    Discovery,
    Follow,
    Github,
    Lease,
    Nodes,
    Rollback,
    Settings,
    Suspend,
    Target,
)
from fencectl.core.config_yaml import ConfigError, Entry, Items, Node, Scalar, Table
from fencectl.core.durations import SPELLINGS, parse_duration

API_VERSION = "fencectl.dev/v1"
KIND = "Config"
LEASE_DURATION_S = (15.0, 300.0)
"""Shorter, and one slow write loses the lease; longer, and a dead holder blocks everybody for long."""

_Value = Callable[["Parser", Node, "_Place"], Any]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the parser is: the keys down to here, and how a message names it."""

    keys: tuple[str, ...] = ()

    def at(self, key: str) -> _Place:
        return _Place((*self.keys, key))

    @property
    def key(self) -> str:
        return self.keys[-1] if self.keys else "the config"

    @property
    def inside(self) -> str:
        """`` in `lease` of target `prod` ``; nothing at the top."""
        keys, of = self.keys, ""
        if keys[:1] == ("targets",) and len(keys) > 1:
            keys, of = keys[2:], f"target `{keys[1]}`"
        inner = ".".join(keys)
        if inner and of:
            return f" in `{inner}` of {of}"
        return f" in `{inner}`" if inner else f" in {of}" if of else ""

    @property
    def label(self) -> str:
        """`` `name` in `lease` of target `prod` ``."""
        return f"`{self.key}`{_Place(self.keys[:-1]).inside}"


_WORDS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "empty", "timestamp": "a date"}


def _found(node: Node) -> str:
    match node:
        case Table():
            return "a mapping"
        case Items():
            return "a list"
        case Scalar():
            return _WORDS.get(node.type, "text")


class Parser:
    """One walk over the tree; every method either returns a value or raises `ConfigError`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: dict[tuple[str, ...], int] = {}

    def fail(self, line: int, problem: str, *, hint: str | None = None) -> ConfigError:
        return ConfigError(self._path, line, problem, hint=hint)

    def config(self, root: Node) -> Config:
        top = _Place()
        if not isinstance(root, Table):
            raise self.fail(root.line, f"a config is a mapping, found {_found(root)}")
        # NB: the version first: a later one may have keys that this program does not know.
        self._must_say(root, "apiVersion", API_VERSION)
        self._must_say(root, "kind", KIND)
        settings: dict[str, Any] = {}
        targets: tuple[Target, ...] = ()
        for entry in self._entries(root, top, known=("apiVersion", "kind", "targets", *_SETTINGS)):
            if entry.key == "targets":
                targets = self._targets(entry)
            elif entry.key in _SETTINGS:
                settings[entry.key] = _SETTINGS[entry.key](self, entry.value, top.at(entry.key))
        return Config(path=self._path, targets=targets, settings=Settings(**settings), lines=self._lines)

    def _must_say(self, root: Table, key: str, value: str) -> None:
        entry = root.get(key)
        if entry is None:
            raise self.fail(root.line, f"`{key}` is missing", hint=f"add `{key}: {value}`")
        if not isinstance(entry.value, Scalar) or entry.value.text != value:
            found = f"`{entry.value.text}`" if isinstance(entry.value, Scalar) else _found(entry.value)
            raise self.fail(entry.line, f"`{key}` is {found}, and this program reads `{value}`")

    def _entries(self, table: Table, place: _Place, *, known: tuple[str, ...]) -> Iterator[Entry]:
        for entry in table.entries:
            if entry.key not in known:
                problem = f"unknown key `{entry.key}`{place.inside}"
                raise self.fail(entry.line, problem, hint=_meant(entry.key, known, place))
            self._lines[place.at(entry.key).keys] = entry.line
            yield entry

    def _targets(self, targets: Entry) -> tuple[Target, ...]:
        place = _Place(("targets",))
        if not isinstance(targets.value, Table) or not targets.value.entries:
            raise self.fail(
                targets.line, f"`targets` must be a mapping of names, found {_found(targets.value)}",
                hint="did you mean `targets: {prod: {context: prod}}`",
            )  # fmt: skip
        found: list[Target] = []
        for entry in targets.value.entries:
            here = place.at(entry.key)
            if not entry.key.strip():
                raise self.fail(entry.line, "a target has no name")
            self._lines[here.keys] = entry.line
            target = self._target(entry, here)
            if twin := next((other for other in found if other.context == target.context), None):
                raise self.fail(
                    entry.line,
                    f"targets `{twin.name}` and `{target.name}` are the same context `{target.context}`",
                )
            found.append(target)
        return tuple(found)

    def _target(self, entry: Entry, place: _Place) -> Target:
        said: dict[str, Any] = {}
        if isinstance(entry.value, Scalar) and entry.value.type == "null":
            return Target(name=entry.key, context=entry.key)
        if not isinstance(entry.value, Table):
            raise self.fail(
                entry.line, f"target `{entry.key}` must be a mapping, not {_found(entry.value)}",
                hint=f"did you mean `{entry.key}: {{context: NAME}}`",
            )  # fmt: skip
        for inner in self._entries(entry.value, place, known=("context", "print_context", *_SETTINGS)):
            parse = _SETTINGS.get(inner.key, _text)
            said[inner.key] = parse(self, inner.value, place.at(inner.key))
        context = said.pop("context", entry.key)
        print_context = said.pop("print_context", None)
        return Target(name=entry.key, context=context, print_context=print_context, overrides=Settings(**said))

    def section(self, node: Node, place: _Place, *, keys: Mapping[str, _Value], make: Callable[..., Any]) -> Any:
        if not isinstance(node, Table):
            raise self.fail(node.line, f"{place.label} must be a mapping, not {_found(node)}")
        said: dict[str, Any] = {}
        for entry in self._entries(node, place, known=tuple(keys)):
            name = f"{entry.key}_s" if keys[entry.key] in (_duration, _lease_duration) else entry.key
            said[name] = keys[entry.key](self, entry.value, place.at(entry.key))
        return make(**said)


def _meant(key: str, known: tuple[str, ...], place: _Place) -> str:
    """Hint at the nearest key that is valid here, else at the place where this key is valid."""
    lower = key.lower().replace("-", "_")
    if close := get_close_matches(lower, known, n=1, cutoff=0.6):
        return f"did you mean `{close[0]}`"
    if starts := [name for name in known if len(lower) > 1 and name.startswith(lower)]:
        return f"did you mean `{starts[0]}`"
    owners = [section for section, keys in _SECTIONS.items() if lower in keys and place.keys[-1:] != (section,)]
    if owners:
        return f"did you mean `{owners[0]}.{lower}`"
    return f"there are: {', '.join(known)}"


def _text(parser: Parser, node: Node, place: _Place) -> str:
    if not isinstance(node, Scalar):
        raise parser.fail(node.line, f"{place.label} must be text, not {_found(node)}")
    if node.type == "null" or not node.text.strip():
        raise parser.fail(node.line, f"{place.label} is empty")
    if node.type != "str":
        hint = f'did you mean "{node.text}", in quotes'
        raise parser.fail(
            node.line, f"{place.label} must be text, and YAML reads `{node.text}` as {_found(node)}", hint=hint
        )
    return node.text


def _matching(pattern: str, what: str) -> _Value:
    compiled = re.compile(pattern, re.ASCII)

    def parse(parser: Parser, node: Node, place: _Place) -> str:
        text = _text(parser, node, place)
        if not compiled.fullmatch(text):
            raise parser.fail(node.line, f"{place.label} must be {what}, found `{text}`")
        return text

    return parse


_DNS = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_name = _matching(_DNS, "a Kubernetes name")
_repository = _matching(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", "a repository, `owner/name`")
_SUSPEND = re.compile(rf"([a-z][a-z0-9]*)/({_DNS})/({_DNS})", re.ASCII)


def _choice(choices: type[StrEnum]) -> _Value:
    def parse(parser: Parser, node: Node, place: _Place) -> StrEnum:
        text = _text(parser, node, place)
        values = [str(choice) for choice in choices]
        if text not in values:
            close = get_close_matches(text.lower(), values, n=1, cutoff=0.5)
            hint = f"did you mean `{close[0]}`" if close else None
            there_are = " or ".join(f"`{value}`" for value in values)
            raise parser.fail(node.line, f"{place.label} must be {there_are}, found `{text}`", hint=hint)
        return choices(text)

    return parse


def _duration(parser: Parser, node: Node, place: _Place) -> float:
    # NB: `30` is a number to YAML and a fine duration to us; `1:30` is the number 90 to YAML and nothing to us.
    seconds = (
        parse_duration(node.text) if isinstance(node, Scalar) and node.type in ("str", "int", "float") else None
    )
    if seconds is None:
        found = f"`{node.text}`" if isinstance(node, Scalar) and node.text else _found(node)
        raise parser.fail(node.line, f"{place.label} must be a duration, {SPELLINGS}; found {found}")
    if seconds <= 0:
        raise parser.fail(node.line, f"{place.label} must be more than 0")
    return seconds


def _lease_duration(parser: Parser, node: Node, place: _Place) -> float:
    seconds = _duration(parser, node, place)
    least, most = LEASE_DURATION_S
    if not least <= seconds <= most:
        raise parser.fail(node.line, f"{place.label} must be {least:g}s to {most:g}s, found {seconds:g}s")
    return seconds


def _count(parser: Parser, node: Node, place: _Place) -> int:
    text = node.text if isinstance(node, Scalar) and node.type == "int" else ""
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        found = f"`{node.text}`" if isinstance(node, Scalar) else _found(node)
        raise parser.fail(node.line, f"{place.label} must be a whole number from 1 on, found {found}")
    return int(text)


def _truth(parser: Parser, node: Node, place: _Place) -> bool:
    if not isinstance(node, Scalar) or node.type != "bool":
        found = f"`{node.text}`" if isinstance(node, Scalar) else _found(node)
        raise parser.fail(node.line, f"{place.label} must be true or false, found {found}")
    return node.text.lower() in ("true", "yes", "on")


def _command(parser: Parser, node: Node, place: _Place) -> tuple[str, ...]:
    if not isinstance(node, Items) or not node.items:
        hint = f"did you mean `{place.key}: [{node.text}]`" if isinstance(node, Scalar) and node.text else None
        raise parser.fail(node.line, f"{place.label} must be a list of words, not {_found(node)}", hint=hint)
    words = []
    for item in node.items:
        if not isinstance(item, Scalar) or item.type != "str":
            raise parser.fail(
                item.line, f"a word of {place.label} must be text, not {_found(item)}", hint="put it in quotes"
            )
        words.append(item.text)
    return tuple(words)


def _suspend(parser: Parser, node: Node, place: _Place) -> tuple[Suspend, ...]:
    if not isinstance(node, Items):
        raise parser.fail(node.line, f"{place.label} must be a list of `kind/NAMESPACE/NAME`, not {_found(node)}")
    found: list[Suspend] = []
    for item in node.items:
        match = _SUSPEND.fullmatch(item.text) if isinstance(item, Scalar) else None
        if match is None:
            text = f"`{item.text}`" if isinstance(item, Scalar) else _found(item)
            raise parser.fail(item.line, f"an entry of {place.label} must be `kind/NAMESPACE/NAME`, found {text}")
        suspend = Suspend(match[1], match[2], match[3])
        if suspend in found:
            raise parser.fail(item.line, f"{place.label} names {suspend} twice")
        found.append(suspend)
    return tuple(found)


_SECTIONS: dict[str, dict[str, _Value]] = {
    "lease": {"namespace": _name, "name": _name, "duration": _lease_duration, "discovery": _choice(Discovery)},
    "nodes": {"selector": _text, "max_unavailable": _count, "command": _command, "timeout": _duration},
    "follow": {"timeout": _duration},
    "certify": {"canary": _text, "command": _command, "timeout": _duration},
    "rollback": {"on_failure": _truth, "timeout": _duration, "after": _choice(AfterRollback)},
    "github": {"repository": _repository},
}
_MADE: dict[str, type] = {
    "lease": Lease, "nodes": Nodes, "follow": Follow, "certify": Certify, "rollback": Rollback, "github": Github,
}  # fmt: skip


def _section(name: str) -> _Value:
    def parse(parser: Parser, node: Node, place: _Place) -> Any:
        return parser.section(node, place, keys=_SECTIONS[name], make=_MADE[name])

    return parse


_SETTINGS: dict[str, _Value] = {"suspend": _suspend, **{name: _section(name) for name in _SECTIONS}}
