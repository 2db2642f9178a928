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

    `stopped`: why it ended early; None when everything was released. `left`: fences still held. `wrote`: whether
    anything was changed at all.
    """

    told: list[Told] = field(default_factory=list)
    released: int = 0
    left: list[str] = field(default_factory=list)
    stopped: str | None = None
    hint: str | None = None
    wrote: bool = False
    lease: str | None = None
    alive: bool = False
    forbidden: bool = False
