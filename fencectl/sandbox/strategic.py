"""
Strategic merge patch for the built-in kinds.

Lists with a merge key are merged by it; `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder` and
`$retainKeys` are honoured. Everything else is replaced, as a JSON merge patch would.
"""

from __future__ import annotations

from typing import Any

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.schema import ANY, Field, Type
from fencectl.sandbox.status import bad_request

_DIRECTIVE = "$patch"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"


def merge_strategic(shape: Type, live: Any, patch: Obj) -> Obj:
    """Return `live` with `patch` merged in; neither is changed."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type: {directive}")
    out = dict(live) if isinstance(live, dict) else {}
    retain = patch.get(_RETAIN)
    if retain is not None:
        out = {key: value for key, value in out.items() if key in retain}
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN):
            continue
        if key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = value
        elif key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            out[name] = [item for item in out.get(name) or [] if item not in value]
        elif value is None:
            out.pop(key, None)
        else:
            out[key] = _merge_value(_field(shape, key), out.get(key), value)
    for key, order in orders.items():
        if isinstance(out.get(key), list):
            before = (live or {}).get(key) or []
            out[key] = _ordered(_field(shape, key).merge_key, out[key], order=order, before=before)
    return out


def _field(shape: Type, key: str) -> Field:
    if shape.kind == "struct" and key in shape.fields:
        return shape.fields[key]
    return Field(shape.item or ANY if shape.kind == "map" else ANY)


def _merge_value(known: Field, live: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return merge_strategic(known.type, live, value)
    if isinstance(value, list) and known.merge_key is not None:
        before = list(live or [])
        if known.merge_key == "":
            merged = before + [item for item in value if item not in before]
        else:
            merged = _merge_list(known, before, value)
        return _ordered(known.merge_key, merged, order=value, before=before)
    if isinstance(value, list):
        return [item for item in value if not (isinstance(item, dict) and _DIRECTIVE in item and len(item) == 1)]
    return value


def _merge_list(known: Field, live: list[Any], patch: list[Any]) -> list[Any]:
    key = known.merge_key or ""
    item_type = known.type.item or ANY
    out = list(live)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if item.get(_DIRECTIVE) != "replace"]
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, have in enumerate(out) if have.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            out = [have for have in out if have.get(key) != item[key]]
        elif at is None:
            out.append(merge_strategic(item_type, {}, item))
        else:
            out[at] = merge_strategic(item_type, out[at], item)
    return out


def _ordered(key: str | None, items: list[Any], *, order: list[Any], before: list[Any]) -> list[Any]:
    """
    Put the items that `order` names in its order, and the others where they stood among them.

    An item that was not there before comes ahead of those that only the server had.
    """

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    rank = [name(item) for item in order]
    place = [name(item) for item in before]
    named = sorted((item for item in items if name(item) in rank), key=lambda item: rank.index(name(item)))
    others = [item for item in items if name(item) not in rank]
    out = []
    while named and others:
        both = name(named[0]) in place and name(others[0]) in place
        first = others if both and place.index(name(others[0])) < place.index(name(named[0])) else named
        out.append(first.pop(0))
    return [*out, *named, *others]
