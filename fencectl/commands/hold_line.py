"""The line of `fencectl hold`: which action, on which type; what is wrong with it is said before any read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from fencectl.commands.common import NOTHING
from fencectl.commands.options_acting import HoldOptions
from fencectl.core.errors import UsageError
from fencectl.core.record_hold import LONGEST_REASON, PLACED_BY_HAND


class Action(StrEnum):
    """What `hold` does."""

    PLACE = "place"
    LIFT = "lift"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Line:
    """What was asked for. `type`: empty with `list`. `reason`: None only where a person at a terminal gives it."""

    action: Action
    type: str
    reason: str | None
    until: str | None


_TYPES = ", ".join(PLACED_BY_HAND)
_TYPE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
# What people of other tools type for an action.
_HABITS = {
    **dict.fromkeys(("add", "create", "set", "new", "start", "put", "on"), Action.PLACE),
    **dict.fromkeys(("remove", "rm", "delete", "release", "clear", "unset", "stop", "off"), Action.LIFT),
    **dict.fromkeys(("ls", "get", "show", "status"), Action.LIST),
}


def read_line(options: HoldOptions) -> Line:
    """Read the line; raises UsageError for what is missing, too much, or no hold."""
    action, rest = _action(options.words)
    if action is Action.LIST:
        _must_be_bare(options, rest)
        return Line(action, "", None, None)
    hold_type = _type(action, rest)
    if action is Action.LIFT and options.until is not None:
        raise UsageError(
            "hold lift takes no `--until`: a hold goes at once", hint=f"leave `--until` out. {NOTHING}"
        )
    if action is Action.PLACE and options.yes:
        raise UsageError("hold place asks nothing, so there is nothing to confirm", hint="leave `--yes` out")
    return Line(action, hold_type, _reason(action, options), options.until)


def _action(words: Sequence[str]) -> tuple[Action, Sequence[str]]:
    there_are = "there are: place, lift, list"
    if not words:
        raise UsageError("hold needs an action", hint=f"{there_are}; `fencectl hold --help` shows each")
    word = words[0]
    if word in frozenset(Action):
        return Action(word), words[1:]
    if word in PLACED_BY_HAND:
        raise UsageError(f"hold needs an action before `{word}`", hint=f"place {word}, or lift {word}")
    close = _HABITS.get(word) or next(iter(get_close_matches(word.lower(), list(Action), n=1)), None)
    meant = f"did you mean `fencectl hold {close}`? T{there_are[1:]}" if close else there_are
    raise UsageError(f"hold has no action `{word}`", hint=meant)


def _must_be_bare(options: HoldOptions, rest: Sequence[str]) -> None:
    given = {"--reason": options.reason, "--until": options.until, "--yes": options.yes or None}
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"hold list takes no `{option}`", hint=f"leave it out. {NOTHING}")
    if rest:
        raise UsageError(f"hold list takes no type, got `{rest[0]}`", hint="it lists all of them")


def _type(action: Action, rest: Sequence[str]) -> str:
    if not rest:
        raise UsageError(f"hold {action} needs the type of the hold", hint=f"there are: {_TYPES}")
    word = rest[0].removeprefix("hold-")
    if len(rest) > 1:
        raise UsageError(
            f"hold {action} takes one type, got `{word}` and `{rest[1]}`",
            hint="a reason of several words goes in quotes: --reason '…'",
        )
    if action is Action.PLACE and word == "claim":
        raise UsageError(
            "a claim is left by a restore that failed, and not placed by hand", hint=f"there are: {_TYPES}"
        )
    if (action is Action.PLACE and word not in PLACED_BY_HAND) or not _TYPE.fullmatch(word):
        close = get_close_matches(word.lower(), PLACED_BY_HAND, n=1)
        meant = f"did you mean `{close[0]}`? There are: {_TYPES}" if close else f"there are: {_TYPES}"
        raise UsageError(f"no hold is of type `{word}`", hint=meant)
    return word


def _reason(action: Action, options: HoldOptions) -> str | None:
    reason = options.reason.strip() if options.reason is not None else None
    if reason is None:
        if action is Action.LIFT and not options.yes:
            return None
        raise UsageError(
            f"hold {action} needs a reason",
            hint="--reason 'INC-2291 checkout': whoever meets the hold reads it"
            if action is Action.PLACE
            else "--reason 'INC-2291 is over': it is kept beside the hold that was lifted",
        )
    return checked_reason(reason)


def checked_reason(reason: str) -> str:
    """The reason, if it says something and fits into a record."""
    if not reason:
        raise UsageError("the reason is empty", hint=f"say why, in a few words. {NOTHING}")
    if len(reason) > LONGEST_REASON:
        raise UsageError(
            f"the reason has {len(reason)} characters, {LONGEST_REASON} are allowed",
            hint=f"name the ticket, and write the rest there. {NOTHING}",
        )
    return reason
