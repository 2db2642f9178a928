"""
What the sandbox knows about the shape of objects.

Types are written as text, one line each (see `types_builtin.py`), and read once into `Type` trees. The same
trees drive decoding, validation, strategic merge, server-side apply and the published OpenAPI, so a field
is described in one place only.

A line is `Name field spec; field spec; ...`; an indented line goes on with the one before. A spec is a type
and flags, separated by blanks: `s` string, `b` bool, `i` int32, `l` int64, `n` number, `T` time, `M` micro
time, `q` quantity, `x` int-or-string, `any`, `Name` a struct, `[t]` a list, `{t}` a map. Flags: `!` is
written even when empty, `*` a pointer (an explicit zero is kept), `@set`, `@map:key,key`, `@atomic` how
server-side apply merges, `~key` merge key of a strategic patch (`~` alone: merge of a plain list), `~!`
keys are retained, `=json` a default, `?` required, `^name` a pattern of `PATTERNS`, `%a,b` the values
allowed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCALARS = {
    "s": "string",
    "b": "boolean",
    "i": "int32",
    "l": "int64",
    "n": "number",
    "T": "time",
    "M": "microtime",
    "q": "quantity",
    "x": "intorstring",
    "any": "any",
}


@dataclass(slots=True, eq=False)
class Type:
    """The shape of a value. `kind` is a word of `SCALARS`' values, or struct, map, list."""

    kind: str
    name: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    item: Type | None = None
    # How server-side apply merges a list or a map: atomic, set, map, granular.
    merge: str = "granular"
    keys: tuple[str, ...] = ()
    keeps_unknown: bool = False
    enum: tuple[Any, ...] = ()
    pattern: str = ""

    @property
    def below(self) -> Type:
        """The type of the items of a list, or of the values of a map."""
        return self.item or ANY


@dataclass(slots=True, eq=False)
class Field:
    """One field of a struct."""

    type: Type
    always: bool = False
    pointer: bool = False
    merge_key: str | None = None
    retain_keys: bool = False
    required: bool = False
    default: Any = None


PATTERNS = {
    "duration": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
    "timeout": r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$",
}
ANY = Type("any", keeps_unknown=True)


def read_types(text: str, *, known: Mapping[str, Type] | None = None) -> dict[str, Type]:
    """Read type lines; later lines may name earlier and later ones, and those of `known`."""
    lines = [line for line in text.replace("\n  ", " ").splitlines() if line]
    types: dict[str, Type] = dict(known or {})
    for line in lines:
        name = line.split(None, 1)[0]
        types[name] = Type("struct", name=name)
    for line in lines:
        name, _, rest = line.partition(" ")
        struct = types[name]
        for part in rest.split(";"):
            words = part.split()
            if not words:
                continue
            if words[0] == "...":
                struct.keeps_unknown = True
                continue
            struct.fields[words[0]] = _field(words[1], words[2:], types=types)
    return types


def _type(spec: str, types: Mapping[str, Type]) -> Type:
    if spec in SCALARS:
        return ANY if spec == "any" else Type(SCALARS[spec])
    if spec.startswith("["):
        return Type("list", item=_type(spec[1:-1], types), merge="atomic")
    if spec.startswith("{"):
        return Type("map", item=_type(spec[1:-1], types))
    return types[spec]


def _field(spec: str, flags: list[str], *, types: Mapping[str, Type]) -> Field:
    shape = _type(spec, types)
    made = Field(shape)
    for flag in flags:
        if flag == "!":
            made.always = True
        elif flag == "*":
            made.pointer = True
        elif flag == "?":
            made.required = True
        elif flag == "~!":
            made.retain_keys = True
        elif flag.startswith("~"):
            made.merge_key = flag[1:]
        elif flag.startswith("%"):
            shape.enum = tuple(flag[1:].split(","))
        elif flag.startswith("^"):
            shape.pattern = PATTERNS[flag[1:]]
        elif flag.startswith("="):
            made.default = json.loads(flag[1:])
        elif flag == "@atomic" and shape.kind == "struct":
            made.type = Type("struct", name=shape.name, fields=shape.fields, merge="atomic")
        elif flag.startswith("@"):
            kind, _, keys = flag[1:].partition(":")
            shape.merge = kind
            shape.keys = tuple(keys.split(",")) if keys else ()
        else:
            raise ValueError(f"unknown flag {flag!r} in {spec}")
    # NB: Go writes a struct that is no pointer even when it is empty.
    if shape.kind == "struct" and not made.pointer:
        made.always = True
    return made


def from_openapi(schema: Mapping[str, Any]) -> Type:
    """Read the structural schema of a CustomResourceDefinition."""
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return Type("intorstring")
    if kind == "object":
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping) and not schema.get("properties"):
            merge = "atomic" if schema.get("x-kubernetes-map-type") == "atomic" else "granular"
            return Type("map", item=from_openapi(extra), merge=merge)
        required = set(schema.get("required", ()))
        fields = {
            name: Field(from_openapi(sub), pointer=True, required=name in required, default=sub.get("default"))
            for name, sub in schema.get("properties", {}).items()
        }
        merge = "atomic" if schema.get("x-kubernetes-map-type") == "atomic" else "granular"
        return Type("struct", fields=fields, keeps_unknown=keeps or bool(extra), merge=merge)
    if kind == "array":
        return Type(
            "list",
            item=from_openapi(schema.get("items", {})),
            merge=schema.get("x-kubernetes-list-type", "atomic"),
            keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        )
    words = {"string": "string", "boolean": "boolean", "number": "number", "integer": "int64"}
    if kind in words:
        return Type(words[kind], enum=tuple(schema.get("enum", ())), pattern=str(schema.get("pattern", "")))
    return Type("any", keeps_unknown=True)
