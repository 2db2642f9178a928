"""
A deploy inside of the command of another one: what it is told of the run around it, and when that is believed.

It takes no lease of its own. It stands under that of the outermost run, for as long as that run beats; its fences
say within which run they are, so that they are reported, released and recovered with it, before that run's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fencectl.core.errors import UsageError
from fencectl.core.identity import MAX_LENGTH, parse_holder
from fencectl.core.journal import MAX_TOKEN, Journal
from fencectl.core.lease import HOLDER_FIELD, TRANSITIONS
from fencectl.core.patches import ABSENT, GuardedPatch, annotation, guard, put_annotations, seal
from fencectl.core.profiles import NESTED
from fencectl.core.refs import Raw, Seen, annotations_of, dig
from fencectl.core.times import age_text, parse_time

HOLDER_VARIABLE = "FENCECTL_HOLDER"
TOKEN_VARIABLE = "FENCECTL_TOKEN"  # noqa: S105 -- the fencing token is no secret
LEASE_VARIABLE = "FENCECTL_LEASE"
SERVER_VARIABLE = "FENCECTL_SERVER"
THROUGH_VARIABLE = "FENCECTL_THROUGH"
VARIABLES = (HOLDER_VARIABLE, TOKEN_VARIABLE, LEASE_VARIABLE, SERVER_VARIABLE, THROUGH_VARIABLE)

RANKS = 2000
"""The fences of a nested run stand so much higher in the order of release than those of the run around it."""
DEEPEST = 8
_THROUGH = "through"
# As options are read from the environment: which cluster a verb is about.
_WHERE = re.compile(r"FENCECTL_[A-Z]+_(CONTEXT|KUBECONFIG)", re.ASCII)
_IDENTITY = re.compile(rf"[a-z0-9.-]{{1,{MAX_LENGTH}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Around:
    """
    The runs around this one, as the environment names them.

    `holder`, `token`, `lease` (namespace, name): of the outermost run, which holds the lease. `server`: of its
    target, None where that is not told. `through`: the nested runs between that one and this one, outermost first.
    """

    holder: str
    token: int
    lease: tuple[str, str]
    server: str | None = None
    through: tuple[str, ...] = ()

    @property
    def runs(self) -> frozenset[str]:
        """Every run around this one."""
        return frozenset((self.holder, *self.through))

    @property
    def rank(self) -> int:
        """How much higher the fences of this run stand than those of one that is not nested."""
        return RANKS * (1 + len(self.through))

    def deeper(self, holder: str) -> Around:
        """What a run inside of this, `holder`, is to its own command."""
        return replace(self, through=(*self.through, holder))


def read_around(environ: Mapping[str, str]) -> Around | None:
    """
    Read what a run hands to its command; None where this process is in no such command.

    Raises UsageError where only a part of it is there, or something else than a run has written it.
    """
    holder = environ.get(HOLDER_VARIABLE)
    if not holder:
        return None
    token, lease = environ.get(TOKEN_VARIABLE, ""), environ.get(LEASE_VARIABLE, "")
    namespace, _, name = lease.partition("/")
    through = tuple(environ.get(THROUGH_VARIABLE, "").split())
    number = int(token) if token.isascii() and token.isdecimal() and len(token) < 11 else 0
    broken = (
        HOLDER_VARIABLE
        if not _IDENTITY.fullmatch(holder)
        else TOKEN_VARIABLE
        if not 0 < number <= MAX_TOKEN
        else LEASE_VARIABLE
        if not namespace or not name or "/" in name
        else THROUGH_VARIABLE
        if len(through) > DEEPEST or not all(_IDENTITY.fullmatch(run) for run in through)
        else None
    )
    if broken is not None:
        raise UsageError(
            f"{broken} is not what a deploy hands to its command, which this is, as {HOLDER_VARIABLE} says",
            hint=f"hand on all of the FENCECTL_ variables, or `env -u {HOLDER_VARIABLE}` for a deploy of its own."
            " Nothing was read or changed",
        )
    return Around(holder, number, (namespace, name), environ.get(SERVER_VARIABLE) or None, through)


def handed_on(environ: Mapping[str, str], around: Around) -> dict[str, str]:
    """
    The environment of a command, in which a deploy finds `around` as the runs around it.

    What was handed to this process itself is taken out, and what names clusters to it: that may be another target.
    The server alone stays, which whoever calls this has written for the command.
    """
    taken_out = {*VARIABLES} - {SERVER_VARIABLE}
    kept = {key: value for key, value in environ.items() if key not in taken_out and not _WHERE.fullmatch(key)}
    told = {
        HOLDER_VARIABLE: around.holder,
        TOKEN_VARIABLE: str(around.token),
        LEASE_VARIABLE: "/".join(around.lease),
    }
    told |= {THROUGH_VARIABLE: " ".join(around.through)} if around.through else {}
    return kept | told


def depth(environ: Mapping[str, str]) -> int:
    """How many nested runs are around a command with this environment."""
    return len(environ.get(THROUGH_VARIABLE, "").split())


def why_not_believed(around: Around, lease: Seen | None, *, now: datetime) -> str | None:
    """
    Why the run around is not believed, from its lease as read `now`; None where it holds the lease and beats.

    `now` is of the server's clock, which wrote the heartbeat as well. Two thirds of the duration, because that is
    when the run itself gives its lease up for lost.
    """
    name = f"lease/{'/'.join(around.lease)}"
    if lease is None:
        return f"{name} is not there any more"
    holder, token = dig(lease.raw, "spec", "holderIdentity"), dig(lease.raw, "spec", "leaseTransitions")
    if holder != around.holder:
        whom = f"held by {parse_holder(str(holder)).title}" if holder else "free"
        return f"{name} is {whom} now"
    if token != around.token:
        return f"{name} has token {token} now, not {around.token}: it was in other hands meanwhile"
    duration_s, renewed_at = duration_of(lease.raw), parse_time(dig(lease.raw, "spec", "renewTime"))
    if duration_s is None or renewed_at is None:
        return f"{name} tells no usable time of its last renewal"
    age = now - renewed_at
    if age > timedelta(seconds=duration_s * 2 / 3):
        return f"{name} was not renewed for {age_text(age.total_seconds())}"
    return None


def duration_of(lease: Raw) -> int | None:
    """The duration of a lease in whole seconds, where it has a usable one."""
    found = dig(lease, "spec", "leaseDurationSeconds")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def announce(lease: Seen, around: Around) -> GuardedPatch | None:
    """
    Write on the lease that a run inside of it is about to fence; None where that stands there already.

    It goes before that run's first fence, under the guard that the lease is still held: so whoever ends the run
    around knows from one read whether there is anything to look for.
    """
    named = announced(lease.raw)
    names = named if around.holder in named else (around.holder,)
    parents = (around.holder, *around.through[-1:])
    wanted = tuple(dict.fromkeys((*names, *parents)))
    if wanted == named:
        return None
    current = annotations_of(lease.raw)
    as_read = [guard(annotation(NESTED), current.get(NESTED, ABSENT))] if current else []
    return seal(
        lease.ref,
        [
            guard(HOLDER_FIELD, around.holder),
            guard(TRANSITIONS, around.token),
            *as_read,
            *put_annotations(current, {NESTED: " ".join(wanted)}),
        ],
    )


def announced(lease: Raw) -> tuple[str, ...]:
    """The runs that have, or had, a run inside of them which fences."""
    found = annotations_of(lease).get(NESTED)
    return tuple(found.split()) if isinstance(found, str) else ()


def extra_of(around: Around) -> dict[str, list[str]]:
    """What a nested run's journal says besides `within`: the nested runs between it and the outermost one."""
    return {_THROUGH: list(around.through)} if around.through else {}


def is_inside(journal: Journal, holder: str) -> bool:
    """Whether a fence is of a run inside of that one, however deep."""
    through = journal.extra.get(_THROUGH)
    return journal.within == holder or (isinstance(through, list) and holder in through)
