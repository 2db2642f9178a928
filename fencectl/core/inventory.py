"""
What a Flux object has applied, as its `status.inventory` names it.

An entry's `id` is `NAMESPACE_NAME_GROUP_KIND`, with an empty namespace or group where there is none. None of the
parts can hold an underscore but the name of an RBAC object, whose colons are written as two of them.
"""

from __future__ import annotations

from fencectl.core.refs import ObjectRef, Raw, dig

Key = tuple[str, str, str, str]
"""Group, kind, namespace and name: what makes an object the same in another version of its group."""


def inventory_key(ref: ObjectRef) -> Key:
    """The object as an inventory would name it."""
    return ref.group, ref.kind, ref.namespace or "", ref.name


def inventory_of(obj: Raw) -> frozenset[Key] | None:
    """
    Everything that a Flux object has applied.

    None where it does not say, or says anything that cannot be read: that is not "nothing".
    """
    entries = dig(obj, "status", "inventory", "entries")
    if not isinstance(entries, list):
        return None
    keys = [_key(dig(entry, "id")) for entry in entries]
    return frozenset(key for key in keys if key is not None) if None not in keys else None


def _key(identity: object) -> Key | None:
    if not isinstance(identity, str):
        return None
    namespace, first, rest = identity.partition("_")
    rest, last, kind = rest.rpartition("_")
    name, middle, group = rest.rpartition("_")
    if not (first and last and middle and name and kind):
        return None
    return group, kind, namespace, name.replace("__", ":")
