"""
Read an object that is followed: counts, conditions and generations, of which nothing is taken for granted.

What has the wrong type raises MalformedError, which the judge turns into `unknown`. What is absent is None or
zero, as the API leaves it out: a status that is not there yet is no malformed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import Cause, Judgement, RolloutVerdict, Target

LARGEST = 2**63 - 1


class MalformedError(Exception):
    """A field has a value that no server of this kind writes; `what` names it, never its value."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. `observed`: the generation that it speaks of, where it says so."""

    status: str
    reason: str
    message: str
    observed: int | None

    @property
    def words(self) -> str:
        """Reason and message, as far as there are any; foreign text."""
        said = (self.reason, self.message.strip())
        return ": ".join(part for part in said if part) or f"status {self.status}"


def section(obj: Raw, *keys: str) -> Mapping[str, Any]:
    """Return a map of the object, empty where it is absent."""
    found: Mapping[str, Any] = obj
    for key in keys:
        inner = found.get(key)
        if inner is None:
            return {}
        if not isinstance(inner, Mapping):
            raise MalformedError(".".join(keys))
        found = inner
    return found


def whole(obj: Mapping[str, Any], key: str, where: str) -> int | None:
    """Return a whole number that is not negative; None where it is absent."""
    found = obj.get(key)
    if found is None:
        return None
    # NB: `true` is an int to Python.
    if type(found) is not int or not 0 <= found <= LARGEST:
        raise MalformedError(f"{where}.{key}")
    return found


def count(status: Mapping[str, Any], key: str) -> int:
    """Return a count of the status; the API leaves zero out."""
    return whole(status, key, "status") or 0


def flag(obj: Mapping[str, Any], key: str, where: str) -> bool:
    """Return a boolean that the API leaves out where it is false."""
    found = obj.get(key)
    if found is None or isinstance(found, bool):
        return bool(found)
    raise MalformedError(f"{where}.{key}")


def words(obj: Mapping[str, Any], key: str) -> str:
    """Return a text; empty where there is none."""
    found = obj.get(key)
    return found if isinstance(found, str) else ""


def conditions(obj: Raw) -> dict[str, Condition]:
    """Return the conditions by type."""
    found = section(obj, "status").get("conditions")
    if found is None:
        return {}
    if not isinstance(found, list):
        raise MalformedError("status.conditions")
    read: dict[str, Condition] = {}
    for one in found:
        kind, status = dig(one, "type"), dig(one, "status")
        if not isinstance(kind, str) or status not in ("True", "False", "Unknown"):
            raise MalformedError("status.conditions")
        observed = whole(one, "observedGeneration", "status.conditions")
        read[kind] = Condition(status, words(one, "reason"), words(one, "message"), observed)
    return read


def is_so(found: Mapping[str, Condition], kind: str, status: str = "True") -> bool:
    """Whether a condition is there and has that status."""
    return kind in found and found[kind].status == status


def generation_of(obj: Raw) -> int | None:
    """Return `metadata.generation`; None for kinds that have none."""
    return whole(section(obj, "metadata"), "generation", "metadata")


def observed_generation(obj: Raw) -> int | None:
    """Return `status.observedGeneration`; some custom kinds write it as text (argo-rollouts does)."""
    status = section(obj, "status")
    found = status.get("observedGeneration")
    if isinstance(found, str):
        # NB: it once was a hash there. Only digits are a generation.
        if not (found.isascii() and found.isdigit() and len(found) < 19):
            raise MalformedError("status.observedGeneration")
        return int(found)
    # NB: Flux's CRDs begin with -1: nothing was seen yet.
    if type(found) is int and found == -1:
        return None
    return whole(status, "observedGeneration", "status")


def not_seen(target: Target, obj: Raw) -> Judgement | None:
    """
    Wait until the controller has seen what was deployed; None once it has.

    For kinds that always say which generation they have seen. Everything else in a status is of that generation.
    """
    generation = generation_of(obj)
    if generation is None:
        raise MalformedError("metadata.generation")
    observed = observed_generation(obj)
    wanted = max(generation, target.generation or 0)
    if observed is not None and observed >= wanted:
        return None
    seen = "nothing of it yet" if observed is None else f"generation {observed}"
    return waiting(Cause.NOT_SEEN, f"its controller has seen {seen}, not generation {wanted}")


def done(reason: str, *, grace_s: float = 0.0, for_good: bool = False, **more: Any) -> Judgement:
    """Say that it has succeeded."""
    return Judgement(RolloutVerdict.SUCCEEDED, Cause.DONE, reason, grace_s, for_good=for_good, **more)


def waiting(cause: Cause, reason: str, **more: Any) -> Judgement:
    """Say that it is under way."""
    return Judgement(RolloutVerdict.WAITING, cause, reason, **more)


def failed(cause: Cause, reason: str, **more: Any) -> Judgement:
    """Say that it has failed, or has once it stays so."""
    return Judgement(RolloutVerdict.FAILED, cause, reason, **more)


def unknown(cause: Cause, reason: str, **more: Any) -> Judgement:
    """Say that nobody can tell, or can once it stays so."""
    return Judgement(RolloutVerdict.UNKNOWN, cause, reason, **more)
