"""
The door through which evidence reads single objects of a cluster: core and evidence know no transport.

What the cluster package opens fits as it stands. It raises `NotReadableError` where nobody answers.
"""

from __future__ import annotations

from typing import Protocol


class Reply(Protocol):
    """One whole answer, whatever its status."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def body(self) -> bytes:
        """What was answered, undecoded; hostile until checked."""
        ...


class Reader(Protocol):
    """Reads; never more than that."""

    def get(self, path: str, *, deadline_s: float | None = None) -> Reply:
        """Return the answer, whatever its status; raises `NotReadableError` where there is none."""
        ...
