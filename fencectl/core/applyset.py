"""
ApplySets, by kubectl's own convention: what a deploy has applied, so that it can take away what it no longer does.

The parent is a ConfigMap beside the lease. Its label holds the set's id, its annotations the kinds and namespaces
in which members may be; each member carries the id as a label
(https://kubernetes.io/docs/reference/labels-annotations-taints/, `applyset.kubernetes.io/…`). What is recorded
grows before members are made, and shrinks only after they are gone, so that no member is ever out of sight.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.refs import Raw, annotations_of, labels_of

ID = "applyset.kubernetes.io/id"
PART_OF = "applyset.kubernetes.io/part-of"
TOOLING = "applyset.kubernetes.io/tooling"
KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"
OUR_TOOLING = "fencectl/v1"

GroupKind = tuple[str, str]
"""Group (empty for the core group) and kind."""


class ApplySetError(FencectlError):
    """The set is not ours to change, or cannot be read; nothing was changed."""

    exit_code = ExitCode.HELD_PERSON_NEEDED


def set_id(namespace: str, name: str) -> str:
    """The id of the set whose parent is this ConfigMap."""
    digest = hashlib.sha256(f"{name}.{namespace}.ConfigMap.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def default_set(lease: str) -> str:
    """The name of the parent beside a lease of this name, where nobody gives another."""
    return f"{lease}-applyset"


@dataclass(frozen=True, slots=True)
class Contents:
    """Where members may be: kinds, and namespaces."""

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __or__(self, other: Contents) -> Contents:
        return Contents(self.kinds | other.kinds, self.namespaces | other.namespaces)


def read_contents(parent: Raw, *, namespace: str, name: str) -> Contents:
    """What a parent says of its set. Raises ApplySetError where it is no parent of ours."""
    called = f"configmap/{namespace}/{name}"
    found, wanted = labels_of(parent).get(ID), set_id(namespace, name)
    if found != wanted:
        what = f"carries the id `{found}`, not its own" if found else f"has no label {ID}"
        raise ApplySetError(
            f"{called} is no ApplySet of fencectl: it {what}",
            hint="name another with `--applyset`. Nothing was changed",
        )
    annotations = annotations_of(parent)
    tooling = annotations.get(TOOLING)
    if not isinstance(tooling, str) or tooling.partition("/")[0] != OUR_TOOLING.partition("/")[0]:
        raise ApplySetError(
            f"{called} is managed by `{tooling}`, not by fencectl",
            hint="name another with `--applyset`. Nothing was changed",
        )
    kinds = {_group_kind(text) for text in _split(annotations.get(KINDS))}
    return Contents(frozenset(kinds), frozenset([namespace, *_split(annotations.get(NAMESPACES))]))


def _group_kind(text: str) -> GroupKind:
    kind, _, group = text.partition(".")
    return group, kind


def _split(text: object) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else []


def parent_of(namespace: str, name: str, contents: Contents) -> Raw:
    """The parent as it is to be applied."""
    kinds = sorted(f"{kind}.{group}" if group else kind for group, kind in contents.kinds)
    annotations = {TOOLING: OUR_TOOLING, KINDS: ",".join(kinds)}
    # NB: as kubectl does, without the parent's own namespace; and absent where there is no other.
    others = sorted(contents.namespaces - {namespace})
    if others:
        annotations[NAMESPACES] = ",".join(others)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {ID: set_id(namespace, name)},
            "annotations": annotations,
        },
    }


def contents_of(objects: Iterable[tuple[str, str, str | None]]) -> Contents:
    """The contents of objects, each by group, kind and namespace."""
    listed = tuple(objects)
    return Contents(
        frozenset((group, kind) for group, kind, _ in listed),
        frozenset(namespace for _, _, namespace in listed if namespace is not None),
    )


def why_withheld(*, members: int, kept: int, rendered: int) -> str | None:
    """
    Why a prune must be withheld although everything was read; None where it may go on.

    `members`: how many there are now; `kept`: how many of them are rendered; `rendered`: how many objects are.
    """
    if members in (0, kept):
        return None
    counted = f"{rendered} rendered, {members} in the set"
    if rendered == 0:
        return f"nothing was rendered ({counted})"
    if rendered * 2 < members:
        return f"the render has shrunk by more than half ({counted})"
    if kept == 0 and members > 1:
        return f"nothing of the set is rendered any more ({counted})"
    return None


def label_for(set_label: str) -> Mapping[str, str]:
    """What makes an object a member."""
    return {PART_OF: set_label}
