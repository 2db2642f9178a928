"""What came of a recovery, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Told:
    """
    One line of the story, as it happens.

    `result`: `released`, `already` (somebody lifted it meanwhile), `refused`, `freed`, `handed-back`, `taken`.
    """

    result: str
    order: int
    total: int
    fence: str
    detail: str
    at: datetime


@dataclass(slots=True)
class Outcome:
    """
    What came of one recovery.

    `stopped`: why it ended early; None when everything was released. `left`: fences still held. `late`: how many
    fences turned up only while it ran. `wrote`: whether anything was changed at all; `unresolved`: whether a write
    was sent of which nobody can say what came of it. `lease`: `taken`, then `freed`, `handed-back`, `kept` (it
    could not be handed back) or `lost` (it is in other hands). `alive`, `forbidden`, `unread`: it stopped because
    somebody is alive, a right is missing, or the server could not be read.
    """

    told: list[Told] = field(default_factory=list)
    released: int = 0
    left: list[str] = field(default_factory=list)
    late: int = 0
    stopped: str | None = None
    hint: str | None = None
    wrote: bool = False
    unresolved: bool = False
    lease: str | None = None
    alive: bool = False
    forbidden: bool = False
    unread: bool = False
