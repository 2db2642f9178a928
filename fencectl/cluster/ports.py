"""Doors to a cluster, by what may pass: code that takes a `Getter` cannot send, whatever it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from fencectl.cluster.answer import Answer

Query = Mapping[str, str | int]


class Getter(Protocol):
    """Reads; never more than that."""

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        """Return one whole answer."""
        ...

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        idle_s: float = 60.0,
    ) -> Iterator[bytes]:
        """Yield the lines of a watch until the server ends it."""
        ...
