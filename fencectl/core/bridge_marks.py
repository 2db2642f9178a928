"""
Marks and holders of the profile `ghcr-bridge`: who placed a fence, and which fences are of one run.

That tool gives the lease and both suspensions of a run one text, every ordinary node a text of its own, and all
nodes of a bootstrap batch another one. So the fences of a run are joined by what the texts name, not by the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.core.identity import MAX_LENGTH, Holder, HolderKind, parse_holder
from fencectl.core.managers import last_writer
from fencectl.core.patches import GuardedPatch, Op, annotation, drop, guard, seal
from fencectl.core.refs import ObjectRef, Raw, annotations_of, dig
from fencectl.core.report import NoRelease, Refusal

CHILD_RANK = 3
PARENT_RANK = 2
NODE_RANK = 1
LEASE_RANK = 0
"""Released strictly descending; the Lease last, since it keeps that tool's next run out."""

_RUN_REFERENCE = re.compile(r"-gh([0-9]+)\.([0-9]+)-", re.ASCII)
_PLAIN = re.compile(r"[!-~]+", re.ASCII)
_REVISION_LENGTH = 12
"""A bootstrap batch has 12 characters of the revision, everything else of the same run 16."""


@dataclass(frozen=True, slots=True)
class Mark:
    """
    One annotation of that tool as it stands on an object.

    `value`: as read, None where the key is absent; only an empty text counts as absent too. `fault`: why it
    names nobody although it is there.
    """

    key: str
    value: Any

    @property
    def held(self) -> bool:
        """Whether there is a mark at all. White space and control characters are one."""
        return is_held(self.value)

    @property
    def fault(self) -> str | None:
        """Why the mark names nobody; None for a usable one, and where there is none."""
        if not self.held:
            return None
        if not isinstance(self.value, str):
            return "its mark is not text, so it names nobody"
        return None if names_somebody(self.value) else "its mark is blank, so it names nobody"

    @property
    def owner(self) -> str | None:
        """The holder's identity, where the mark names one."""
        return self.value if isinstance(self.value, str) and names_somebody(self.value) else None

    @property
    def text(self) -> str | None:
        """What the object carries, for display: also a blank text, never an empty one."""
        return self.value if self.held and isinstance(self.value, str) else None

    def guards(self) -> list[Op]:
        """The mark must still be what was read; absence is guarded as well."""
        return [guard(annotation(self.key), self.value)]

    def removal(self) -> list[Op]:
        """Take the mark away where the key is there, be it empty."""
        return [] if self.value is None else [drop(annotation(self.key))]


def is_held(value: Any) -> bool:
    """Whether an annotation's value counts: that tool takes the empty text for absence, and nothing else."""
    # NB: not `bool(value)`: a zero or an empty list is no text, and must be reported as what it is.
    return value is not None and value != ""


def is_flag(value: Any) -> bool:
    """Whether a value is one that an optional boolean field can have."""
    # NB: not `in (None, True, False)`: the number 1 equals True.
    return value is None or isinstance(value, bool)


def names_somebody(text: str) -> bool:
    """Whether a text has at least one visible character."""
    return any(character.isprintable() and not character.isspace() for character in text)


def read_mark(raw: Raw, key: str) -> Mark:
    """Read one annotation of that tool."""
    return Mark(key, annotations_of(raw).get(key))


def metadata_fault(raw: Raw) -> str | None:
    """Why an object's marks cannot be read at all: then it may be fenced, and must not look as if it were not."""
    metadata = dig(raw, "metadata")
    annotations = dig(metadata, "annotations")
    if not isinstance(metadata, Mapping) or not (annotations is None or isinstance(annotations, Mapping)):
        return "its annotations cannot be read, so it may carry a mark"
    return None


def read_holder(identity: str) -> Holder:
    """
    Read an identity as that tool's texts are meant: the leftmost `-gh<run>.<attempt>-` names the run.

    Only what that tool can have written names anything: a text with white space or control characters, or
    longer than any identity, stays opaque, so that no proof about a run is hung on it.
    """
    opaque = Holder(identity, HolderKind.OPAQUE)
    if len(identity) > MAX_LENGTH or _PLAIN.fullmatch(identity) is None:
        return opaque
    parsed = parse_holder(identity)
    reference = _RUN_REFERENCE.search(identity)
    if reference is not None:
        run, attempt = reference.groups()
        if len(run) > 20 or len(attempt) > 6:
            return opaque
        # NB: this tool writes no job id, so what looks like one is none.
        known = parsed if parsed.kind is HolderKind.GITHUB else opaque
        return Holder(
            identity,
            HolderKind.GITHUB,
            revision=known.revision,
            run=int(run),
            attempt=int(attempt),
            pid=known.pid,
            nonce=known.nonce,
        )
    # NB: a pod, or a process together with its host, is a spelling of another tool.
    return opaque if parsed.kind is HolderKind.POD or parsed.host is not None else parsed


def group_of(holder: Holder) -> str:
    """
    What joins the fences of one run: run and attempt, else revision and process id, else the very text.

    The old spelling names no run, but it has a revision and a process id too, and each of its nodes a random
    number of its own: joined by text, the Lease would not wait for the nodes of its own run.
    """
    if holder.kind is HolderKind.GITHUB:
        return f"run {holder.run}.{holder.attempt}"
    if holder.revision is not None and holder.pid is not None:
        where = "local" if holder.kind is HolderKind.LOCAL else "process"
        return f"{where} {holder.revision[:_REVISION_LENGTH]} {holder.pid}"
    return f"holder {holder.identity}"


def refused(why: str, *advice: str) -> Refusal:
    """A fence that cannot be released for its own sake."""
    return Refusal(NoRelease.REFUSED, why, "REFUSED", advice)


def sealed_or_refused(target: ObjectRef, operations: Iterable[Op]) -> GuardedPatch | Refusal:
    """Seal a release; what was read may hold values that no guard can be written for."""
    if not target.uid:
        return refused("its uid could not be read, so no patch can be guarded")
    try:
        patch = seal(target, operations)
        patch.body.encode()
    except (ValueError, TypeError, RecursionError):
        return refused("it carries a value that no guard can be written for", "look at it by hand")
    return patch


def marked_since(raw: Raw, key: str) -> datetime | None:
    """When the mark was written, at the latest, by managedFields: that tool writes no time anywhere else."""
    return last_writer(raw, "metadata", "annotations", key)[1]
