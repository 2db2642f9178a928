"""What a deploy applies, and what the server said that this would change: made before the first write."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from fencectl.core.answers import FieldConflict
from fencectl.core.applies import Configuration
from fencectl.core.applyset import Contents, parent_of, set_id
from fencectl.core.diffing import FieldChange
from fencectl.core.gojson import encode
from fencectl.core.refs import ObjectRef, Raw


class What(StrEnum):
    """What an apply would do to one object."""

    CREATE = "create"
    CHANGE = "change"
    SAME = "same"
    UNTRIED = "untried"  # its namespace or its kind comes with this very deploy
    CONFLICT = "conflict"
    REFUSED = "refused"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Change:
    """
    What would become of one object.

    `fields`: of a change. `conflicts`: who owns what this apply would take. `why`: of UNTRIED and REFUSED, the
    server's words. `left_out`: fields of the manifest that belong to a fence. All texts are foreign.
    """

    ref: ObjectRef
    what: What
    fields: tuple[FieldChange, ...] = ()
    conflicts: tuple[FieldConflict, ...] = ()
    why: str = ""
    left_out: tuple[str, ...] = ()
    where: str = ""

    @property
    def stands_in_the_way(self) -> bool:
        """Whether the deploy may not begin over it."""
        return self.what in (What.CONFLICT, What.REFUSED)


@dataclass(frozen=True, slots=True)
class Planned:
    """
    One object to apply. `configuration.target` has the uid that was read, empty where there was no such object.

    `version`: the resourceVersion that was read, None where there was none. `definition`: the name of the
    CustomResourceDefinition of this deploy that brings its kind. `has_status`: its kind has a status to follow.
    `held`: it is a suspension of this run, so that nothing of it moves before the fences are gone. `tried`: what
    the server's dry run made of it, as the server answered; None where it could not be tried.
    """

    configuration: Configuration
    version: str | None = None
    definition: str | None = None
    has_status: bool = True
    held: bool = False
    # NB: may be a Secret; a repr ends up in logs.
    tried: Raw | None = field(default=None, repr=False, compare=False)

    @property
    def ref(self) -> ObjectRef:
        """The object."""
        return self.configuration.target


@dataclass(frozen=True, slots=True)
class SetPlan:
    """The ApplySet of the objects: its parent's name, where its members were, and where they will be."""

    namespace: str
    name: str
    before: Contents
    rendered: Contents

    @property
    def id(self) -> str:
        """The value of the label that makes a member."""
        return set_id(self.namespace, self.name)

    @property
    def everything(self) -> Contents:
        """Where members may be until the prune is over."""
        return self.before | self.rendered

    def parent(self, contents: Contents) -> Configuration:
        """The parent as it is to be applied."""
        ref = ObjectRef("v1", "ConfigMap", "configmaps", self.namespace, self.name, "")
        return Configuration(ref, encode(dict(parent_of(self.namespace, self.name, contents))), ref.display)


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """
    The objects in the order in which they are applied.

    `arguments`: how the input was named, for the record. `force`: take fields over from others. `applyset`: None
    where the deploy keeps none. `prune`: take away what is no longer rendered; `partial`: also on a partial view.
    `canary`: what the canary has applied before, which is rendered as well. `follow_timeout_s`: follow no longer
    than this.
    """

    objects: tuple[Planned, ...]
    arguments: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    force: bool = False
    applyset: SetPlan | None = None
    prune: bool = False
    partial: bool = False
    canary: tuple[ObjectRef, ...] = ()
    follow_timeout_s: float | None = None

    @property
    def rendered(self) -> tuple[ObjectRef, ...]:
        """Every object that this deploy applies, in whichever step."""
        return (*self.canary, *(planned.ref for planned in self.objects))
