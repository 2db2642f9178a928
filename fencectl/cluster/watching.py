"""Lines of a watch, one by one as the server writes them, from a connection of their own."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fencectl.cluster.answer import Answer, read_refusal, server_date
from fencectl.cluster.clock import Clock
from fencectl.cluster.failures import Kind, Unreachable, WireError
from fencectl.cluster.inflate import Inflate, TooMuch
from fencectl.core.errors import NotReadableError

if TYPE_CHECKING:
    from fencectl.cluster.transport import Opened

# One event is one object; etcd holds none above 1.5 MB, and managedFields may double what is shown of it.
_LONGEST_LINE = 16_000_000


class StreamRefused(NotReadableError):  # noqa: N818 - the name says the situation
    """The server answered a watch with an error; `answer` is that error, whole."""

    def __init__(self, answer: Answer, *, context: str, path: str) -> None:
        super().__init__(f"{context} refused to watch {path}", reason=read_refusal(answer).message)
        self.answer = answer


class Lines:
    """An iterator over lines without their line breaks. Ends when the server does, or when it is closed."""

    def __init__(
        self,
        opened: Opened,
        *,
        idle_s: float,
        clock: Clock,
        unreachable: Callable[[WireError], Unreachable],
    ) -> None:
        self._opened = opened
        self._unreachable = unreachable
        self._clock = clock
        self._ready: list[bytes] = []
        self._begun = b""
        self._closed = False
        headers = opened.headers
        self.date_at: datetime | None = server_date(headers)
        self._inflate = Inflate(encoding=headers.get("content-encoding", ""), limit=_LONGEST_LINE)
        self._idle_s = idle_s
        self._quiet_since_s = clock.monotonic_s()
        opened.wire.set_left(lambda: self._quiet_since_s + self._idle_s - self._clock.monotonic_s())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while not self._ready:
            if self._closed:
                raise StopIteration
            self._read_on()
        return self._ready.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the watch, from any thread; a thread that waits for a line sees the end."""
        self._closed = True
        self._opened.wire.close()

    def _read_on(self) -> None:
        opened = self._opened
        try:
            data = opened.wire.read_some(opened.response)
            self._inflate.allow(_LONGEST_LINE - len(self._begun))
            text = self._begun + self._inflate.feed(data)
        except WireError as error:
            if self._closed:
                return
            self.close()
            raise self._unreachable(error) from None
        except TooMuch:
            self.close()
            raise self._unreachable(WireError(Kind.RESET, "a line without an end")) from None
        except zlib.error:
            self.close()
            raise self._unreachable(WireError(Kind.RESET, "a broken gzip stream")) from None
        self._quiet_since_s = self._clock.monotonic_s()
        if not data:
            self.close()
            self._ready = [text] if text else []
            return
        *whole, self._begun = text.split(b"\n")
        # Handed out from the end, so the oldest stands last.
        self._ready = [line for line in reversed(whole) if line]
