"""
From what a client sent to what is stored.

Built-in kinds go through what Go's types would do: unknown fields are dropped, empty ones that are
`omitempty` vanish, wrong JSON types are decode errors. Custom kinds are pruned by their schema and keep
every explicit value, `false` included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fencectl.sandbox.gojson import Obj, kind_of, plain, quote
from fencectl.sandbox.resources import OBJECT_META, Resource
from fencectl.sandbox.schema import Type

_GO_TYPES = {"string": "string", "boolean": "bool", "int32": "int32", "int64": "int64", "number": "float64"}
_TIME = re.compile(r"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?P<fraction>[.,]\d+)?(?P<zone>Z|[+-]\d\d:\d\d)$")
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"


class DecodeError(ValueError):
    """A value does not fit its Go type."""


@dataclass(slots=True)
class Decoded:
    """An object as it would be stored, and what was not understood on the way."""

    obj: Obj
    unknown: list[str] = field(default_factory=list)


def decode_object(resource: Resource, sent: Obj) -> Decoded:
    """Return `sent` as the resource's type would read and write it."""
    done = Decoded({})
    if resource.custom:
        done.obj = plain(_custom(resource, sent, unknown=done.unknown))
    else:
        done.obj = _struct(resource.type, sent, path="", unknown=done.unknown)
    fields = {key: value for key, value in done.obj.items() if key not in ("apiVersion", "kind")}
    # NB: Go writes built-in kinds with the kind first, and maps in the order of their keys.
    kind = {"kind": resource.kind, "apiVersion": resource.api_version}
    done.obj = {**(dict(reversed(kind.items())) if resource.custom else kind), **fields}
    return done


def _custom(resource: Resource, sent: Obj, *, unknown: list[str]) -> Obj:
    out: Obj = {}
    for key, value in sent.items():
        if key == "metadata":
            # NB: decoded on its own, so that errors name the path from here.
            not_known: list[str] = []
            out[key] = _struct(OBJECT_META, value, path="", unknown=not_known)
            unknown += [f"metadata.{path}" for path in not_known]
        elif key in ("apiVersion", "kind"):
            out[key] = value
        else:
            found = resource.type.fields.get(key)
            if found is None:
                if resource.type.keeps_unknown:
                    out[key] = value
                else:
                    unknown.append(key)
            else:
                out[key] = prune(found.type, value, path=key, unknown=unknown)
    return out


def prune(shape: Type, value: Any, *, path: str, unknown: list[str]) -> Any:
    """Drop what a structural schema does not know."""
    if shape.kind == "struct" and isinstance(value, dict):
        out = {}
        for key, item in value.items():
            known = shape.fields.get(key)
            below = f"{path}.{key}"
            if known is not None:
                # NB: a null where the schema has none is dropped.
                if item is not None:
                    out[key] = prune(known.type, item, path=below, unknown=unknown)
            elif shape.keeps_unknown:
                out[key] = item
            else:
                unknown.append(below)
        return out
    if shape.kind == "map" and isinstance(value, dict) and shape.item:
        return {key: prune(shape.item, item, path=f"{path}.{key}", unknown=unknown) for key, item in value.items()}
    if shape.kind == "list" and isinstance(value, list) and shape.item:
        return [prune(shape.item, item, path=f"{path}[{i}]", unknown=unknown) for i, item in enumerate(value)]
    return value


@lru_cache(maxsize=1024)
def _has_defaults(shape: Type) -> bool:
    below, known = [shape], {shape}
    while below:
        one = below.pop()
        if any(field.default is not None for field in one.fields.values()):
            return True
        inner = {field.type for field in one.fields.values()} | ({one.item} if one.item else set())
        below += inner - known
        known |= inner
    return False


def fill_defaults(shape: Type, value: Any) -> Any:
    """Put in the defaults of a schema, below what is there."""
    if not _has_defaults(shape):
        return value
    if shape.kind == "struct" and isinstance(value, dict):
        out = dict(value)
        for name, known in shape.fields.items():
            if name in out:
                out[name] = fill_defaults(known.type, out[name])
            elif known.default is not None:
                out[name] = known.default
        return out
    if shape.kind == "list" and isinstance(value, list) and shape.item:
        return [fill_defaults(shape.item, item) for item in value]
    return value


def _struct(shape: Type, value: Any, *, path: str, unknown: list[str], go_name: str = "") -> Obj:
    if not isinstance(value, dict):
        raise DecodeError(_mismatch(value, path=path, parent=go_name, go_type=f"v1.{shape.name}"))
    read: Obj = {}
    # NB: read in the order of the text, so that findings come in the server's order …
    for name, item in value.items():
        below = f"{path}.{name}" if path else name
        if name in shape.fields:
            if item is not None:
                read[name] = _value(shape.fields[name].type, item, path=below, unknown=unknown, parent=shape.name)
        elif not shape.keeps_unknown:
            unknown.append(below)
    out: Obj = {}
    # … but written in the order of the type, as Go does.
    for name, known in shape.fields.items():
        if name not in read:
            if known.default is not None:
                out[name] = known.default
            elif known.always:
                out[name] = _empty(known.type, pointer=known.pointer)
            continue
        item = read[name]
        # NB: through Go, an empty string, false, 0, [] or {} is the same as absent, unless it is a pointer.
        if not known.always and (item is None or (not known.pointer and item in (0, "", [], {}))):
            if known.default is not None:
                out[name] = known.default
            continue
        if known.pointer and not known.always and item in ([], {}) and known.type.kind in ("list", "map"):
            continue
        out[name] = item
    if shape.keeps_unknown:
        out.update({name: plain(item) for name, item in value.items() if name not in shape.fields})
    return out


def _empty(shape: Type, *, pointer: bool) -> Any:
    if pointer:
        return None
    if shape.kind == "struct":
        return _struct(shape, {}, path="", unknown=[])
    if shape.kind == "any":
        return {}
    zero = {"string": "", "boolean": False, "int32": 0, "int64": 0, "number": 0}
    return zero.get(shape.kind)


def _value(shape: Type, value: Any, *, path: str, unknown: list[str], parent: str) -> Any:
    kind = shape.kind
    if kind == "any" or value is None:
        return plain(value)
    if kind == "struct":
        return _struct(shape, value, path=path, unknown=unknown, go_name=parent)
    if kind == "map":
        if not isinstance(value, dict):
            item = _GO_TYPES.get(shape.item.kind if shape.item else "", "interface {}")
            raise DecodeError(_mismatch(value, path=path, parent=parent, go_type=f"map[string]{item}"))
        below = shape.below
        return {
            key: _element(
                below,
                item,
                path=f"{path}.{key}" if below.kind == "struct" else path,
                unknown=unknown,
                parent=parent,
            )
            # NB: sorted, as Go writes maps.
            for key, item in sorted(value.items())
        }
    if kind == "list":
        if not isinstance(value, list):
            item_type = shape.item
            inner = _GO_TYPES.get(item_type.kind, f"v1.{item_type.name}") if item_type else "interface {}"
            raise DecodeError(_mismatch(value, path=path, parent=parent, go_type=f"[]{inner}"))
        return [
            _element(
                shape.below,
                item,
                path=f"{path}[{i}]" if shape.below.kind == "struct" else path,
                unknown=unknown,
                parent=parent,
            )
            for i, item in enumerate(value)
        ]
    return _scalar(kind, value, path=path, parent=parent)


def _element(shape: Type, value: Any, *, path: str, unknown: list[str], parent: str) -> Any:
    if value is None:
        return {"string": "", "boolean": False, "int32": 0, "int64": 0}.get(shape.kind)
    return _value(shape, value, path=path, unknown=unknown, parent=parent)


def _scalar(kind: str, value: Any, *, path: str, parent: str) -> Any:
    if kind == "string":
        fits = isinstance(value, str)
    elif kind == "boolean":
        fits = isinstance(value, bool)
    elif kind in ("int32", "int64"):
        fits = isinstance(value, int) and not isinstance(value, bool)
        limit = 2**31 if kind == "int32" else 2**63
        if fits and not -limit <= value < limit:
            raise DecodeError(
                f"json: cannot unmarshal number {value} into Go struct field {parent}.{path} of type {kind}"
            )
    elif kind == "number":
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind == "time":
        return _time(value, path=path, parent=parent, micro=False)
    elif kind == "microtime":
        return _time(value, path=path, parent=parent, micro=True)
    else:
        fits = isinstance(value, str | int | float) and not isinstance(value, bool)
        return str(value) if fits and kind == "quantity" else value
    if not fits:
        raise DecodeError(_mismatch(value, path=path, parent=parent, go_type=_GO_TYPES[kind]))
    return value


def unconvertible(shape: Type, value: Any) -> str:
    """Say what is wrong with the first value that does not fit, in the words of the map converter, or nothing."""
    if value is None or shape.kind in ("any", "quantity", "intorstring"):
        return ""
    if shape.kind in _GO_TYPES:
        return _unconvertible_scalar(_GO_TYPES[shape.kind], value)
    if shape.kind in ("time", "microtime"):
        try:
            _time(value, path="", parent="", micro=shape.kind == "microtime")
        except DecodeError as err:
            return str(err)
        return ""
    fits = isinstance(value, list) if shape.kind == "list" else isinstance(value, dict)
    if not fits:
        have = {"array": "slice", "object": "map", "number": "int64"}.get(kind_of(value), kind_of(value))
        return f"cannot restore {'slice' if shape.kind == 'list' else shape.kind} from {have}"
    if shape.kind == "struct":
        pairs = [(known.type, value.get(name)) for name, known in shape.fields.items()]
    else:
        pairs = [(shape.below, item) for item in (value.values() if isinstance(value, dict) else value)]
    return next(filter(None, (unconvertible(below, item) for below, item in pairs)), "")


def _unconvertible_scalar(wanted: str, value: Any) -> str:
    have = (
        "bool" if isinstance(value, bool) else {str: "string", int: "int64", float: "float64"}.get(type(value), "")
    )
    if have == wanted or (have == "int64" and wanted in ("int32", "float64")):
        return ""
    # NB: what Go could convert in principle is refused in other words than what it could not.
    if (have, wanted) in (("int64", "string"), ("float64", "int32"), ("float64", "int64")):
        return f"cannot convert {have} to {wanted}"
    return f"unrecognized type: {wanted}"


def _mismatch(value: Any, *, path: str, parent: str, go_type: str) -> str:
    # NB: Go names the path without list indexes.
    where = re.sub(r"\[\d+\]", "", path)
    place = f"Go struct field {parent}.{where} of type {go_type}" if parent else f"Go value of type {go_type}"
    return f"json: cannot unmarshal {kind_of(value)} into {place}"


def _time(value: Any, *, path: str, parent: str, micro: bool) -> Any:
    if not isinstance(value, str):
        raise DecodeError(_mismatch(value, path=path, parent=parent, go_type="string"))
    layout = _MICRO_LAYOUT if micro else _TIME_LAYOUT
    found = _TIME.match(value)
    if not found:
        raise DecodeError(_time_error(value, layout=layout, rest=_unparsed(value)))
    fraction = found["fraction"] or ""
    if micro and len(fraction) != 7:
        # NB: exactly six digits. Without any, Go stops at what follows the seconds.
        rest = value[19:]
        if fraction and len(fraction) > 7:
            rest = value[26:]
            raise DecodeError(_time_error(value, layout=layout, rest=rest, element="Z07:00"))
        raise DecodeError(_time_error(value, layout=layout, rest=rest, element=".000000"))
    moment = _as_utc(value, found)
    if moment is None:
        raise DecodeError(f"parsing time {quote(value)}: day out of range")
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _as_utc(value: str, found: re.Match[str]) -> Any:
    from datetime import UTC, datetime

    fraction = (found["fraction"] or ".0")[1:7].ljust(6, "0")
    text = f"{value[:19]}.{fraction}{'+00:00' if found['zone'] == 'Z' else found['zone']}"
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _unparsed(value: str) -> str:
    """Return what is left where Go's parser would stop."""
    done = re.match(r"^(\d{4}(-(\d\d(-(\d\d(T(\d\d(:(\d\d(:(\d\d)?)?)?)?)?)?)?)?)?)?)?", value)
    return value[done.end() if done else 0 :]


def _time_error(value: str, *, layout: str, rest: str, element: str = "") -> str:
    if not element:
        at = len(value) - len(rest)
        element = {
            0: "2006",
            4: "-",
            5: "01",
            7: "-",
            8: "02",
            10: "T",
            11: "15",
            13: ":",
            14: "04",
            16: ":",
            17: "05",
        }.get(at, "Z07:00")
    return f"parsing time {quote(value)} as {quote(layout)}: cannot parse {quote(rest)} as {quote(element)}"
