"""
YAML with line numbers, and nothing that YAML could smuggle in.

One document of mappings, lists and plain values. Anchors, aliases and merge keys (`<<`) work; tags, several
documents, repeated keys and structures that grow without end are refused, each with its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencectl.core.errors import UsageError

NOTHING = "Nothing was read or changed"

# A config is a page of text; whatever needs more than this was made to be expensive.
MAX_CHARACTERS = 256 * 1024
_MAX_DEPTH = 16
_MAX_NODES = 20_000


class ConfigError(UsageError):
    """A config that cannot be used: where, and what is wrong there."""

    def __init__(self, path: str, line: int | None, problem: str, *, hint: str | None = None) -> None:
        where = path if line is None else f"{path}:{line}"
        end = "?" if hint is not None and hint.startswith("did you mean") else "."
        super().__init__(f"{where}: {problem}", hint=f"{hint}{end} {NOTHING}" if hint else NOTHING)
        self.path = path
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Scalar:
    """A plain value: its text, and what YAML takes it for (`str`, `int`, `float`, `bool`, `null`, …)."""

    text: str
    type: str
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its line, and its value."""

    key: str
    line: int
    value: Node


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping, in the order written."""

    entries: tuple[Entry, ...]
    line: int

    def get(self, key: str) -> Entry | None:
        """The entry of that key."""
        return next((entry for entry in self.entries if entry.key == key), None)


Node = Scalar | Items | Table


def read_yaml(text: str, *, path: str) -> Node:
    """Read one YAML document, or raise `ConfigError` with the line."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(path, None, f"too long: {len(text)} characters, a config has at most {MAX_CHARACTERS}")
    for number, line in enumerate(text.split("\n"), start=1):
        if unreadable := next((c for c in line.removesuffix("\r") if not _is_text(c)), None):
            raise ConfigError(path, number, f"not valid YAML (found the character U+{ord(unreadable):04X})")
    root = _compose(text, path=path)
    if root is None:
        raise ConfigError(
            path, None, "is empty", hint="it begins with `apiVersion: fencectl.dev/v1` and `kind: Config`"
        )
    return _Reader(path).node(root, depth=0)


def _is_text(character: str) -> bool:
    # NB: what YAML itself calls printable; a character beyond that makes its reader fail without a line.
    code = ord(character)
    return code in (0x09, 0x85) or 0x20 <= code <= 0x7E or (code >= 0xA0 and not 0xD800 <= code <= 0xDFFF
        and code not in (0xFFFE, 0xFFFF))  # fmt: skip


def _loader() -> Any:
    """The C parser where libyaml is there: it is ten times as fast."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _compose(text: str, *, path: str) -> Any:
    """Let PyYAML make its nodes; first walk the events, which needs no recursion, so that depth is bounded."""
    import yaml

    depth, documents = 0, 0
    try:
        for event in yaml.parse(text, Loader=_loader()):
            line = _line_of(event)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _MAX_DEPTH:
                    raise ConfigError(path, line, "nested too deep for a config")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise ConfigError(
                        path,
                        line,
                        "a second document starts here; a config is one",
                        hint="several clusters go under `targets`",
                    )
        return yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text=text, path=path) from error


def _line_of(node: Any) -> int:
    """The line that an event or a node of PyYAML begins on; its marks count from 0."""
    return int(node.start_mark.line) + 1


def _not_yaml(error: Any, *, text: str, path: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else None
    problem = str(error.problem or "cannot be read")
    lines = text.split("\n")
    if line is not None and line <= len(lines) and lines[line - 1].lstrip(" ").startswith("\t"):
        problem = "found a tab where only spaces may stand"
    return ConfigError(path, line, f"not valid YAML ({problem})")


_PLAIN = "tag:yaml.org,2002:"


class _Reader:
    """Turns PyYAML's nodes into ours, counting, so that aliases of aliases come to an end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0

    def node(self, node: Any, *, depth: int) -> Node:
        line = _line_of(node)
        self._bound(line, depth=depth)
        kind = node.tag.removeprefix(_PLAIN)
        if node.id == "mapping" and kind == "map":
            return Table(tuple(self._entries(node, depth=depth).values()), line)
        if node.id == "sequence" and kind == "seq":
            return Items(tuple(self.node(item, depth=depth + 1) for item in node.value), line)
        if node.id != "scalar" or "/" in kind or ":" in kind or kind.startswith("!"):
            raise ConfigError(self._path, line, f"a config has no tags, found `{node.tag}`")
        return Scalar(node.value, kind, line)

    def _bound(self, line: int, *, depth: int) -> None:
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_NODES:
            raise ConfigError(self._path, line, "aliases repeat without end, or almost")

    def _entries(self, node: Any, *, depth: int) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: list[tuple[int, Any]] = []
        for key, value in node.value:
            line = _line_of(key)
            if key.id != "scalar":
                raise ConfigError(self._path, line, "a key must be plain text")
            if key.tag == f"{_PLAIN}merge":
                merged += [(line, other) for other in (value.value if value.id == "sequence" else [value])]
                continue
            if (first := own.get(key.value)) is not None:
                raise ConfigError(
                    self._path, line, f"duplicate key `{key.value}`, first on line {first.line}", hint="keep one"
                )
            own[key.value] = Entry(key.value, line, self.node(value, depth=depth + 1))
        for line, other in merged:
            if other.id != "mapping":
                raise ConfigError(self._path, line, "`<<` takes a mapping, or a list of them")
            self._bound(line, depth=depth + 1)
            for name, entry in self._entries(other, depth=depth + 1).items():
                own.setdefault(name, entry)
        return own
