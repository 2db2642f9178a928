"""Undoing gzip while it arrives: a watch is many gzip members one after the other, each ended by a flush."""

from __future__ import annotations

import zlib

_GZIP = 16 + zlib.MAX_WBITS


class TooMuch(Exception):  # noqa: N818 - said by whoever knows which request it was
    """More bytes than the reader is ready to hold."""


class Inflate:
    """Takes what came over the wire, returns what it stands for; `limit` bounds the sum of it."""

    def __init__(self, *, encoding: str, limit: int) -> None:
        self._gzip = encoding == "gzip"
        self._inflater = zlib.decompressobj(_GZIP) if self._gzip else None
        self._left = limit
        # False in the middle of a member: what was fed so far is not all there was.
        self.complete = True

    def allow(self, limit: int) -> None:
        """Begin to count anew: for an answer that is read without end, part by part."""
        self._left = limit

    def feed(self, data: bytes) -> bytes:
        """Return the next part of the text; raise `TooMuch` once there is more than the limit."""
        if self._inflater is None:
            return self._counted(data)
        parts: list[bytes] = []
        while data:
            # NB: one byte more than allowed tells "too much" from "just enough", before memory is spent.
            part = self._counted(self._inflater.decompress(data, self._left + 1))
            parts.append(part)
            if self._inflater.eof:
                data = self._inflater.unused_data
                self._inflater = zlib.decompressobj(_GZIP)
                self.complete = True
            else:
                data = self._inflater.unconsumed_tail
                self.complete = False
        return b"".join(parts)

    def _counted(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            raise TooMuch
        return part
