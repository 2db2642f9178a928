"""What a node says of itself: whether it is Ready, and since when it has said so."""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.core.refs import Raw, dig


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a node says of itself. `why`: how it is not Ready; None where it is."""

    why: str | None
    heartbeat: object


def readiness(node: Raw) -> Readiness:
    """Read the condition `Ready` of a node."""
    conditions = dig(node, "status", "conditions")
    for one in conditions if isinstance(conditions, list) else []:
        if dig(one, "type") != "Ready":
            continue
        heartbeat = dig(one, "lastHeartbeatTime")
        if dig(one, "status") == "True":
            return Readiness(None, heartbeat)
        words = [str(text) for key in ("reason", "message") if (text := dig(one, key))]
        said = f" ({': '.join(words)})" if words else ""
        return Readiness(f"its condition Ready is {dig(one, 'status')}{said}", heartbeat)
    return Readiness("it has no condition Ready", None)
