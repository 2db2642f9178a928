"""A loopback relay that counts: TLS passes through it unread, so only bytes and connections are known."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 256 * 1024


class Relay:
    """Listens on a port of its own and passes everything on to one other port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self.sent = 0
        self.received = 0
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def reset(self) -> None:
        """Start counting anew."""
        with self._lock:
            self.sent = self.received = self.connections = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._upstream))
            with self._lock:
                self.connections += 1
            threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        try:
            while data := source.recv(_CHUNK):
                with self._lock:
                    if is_request:
                        self.sent += len(data)
                    else:
                        self.received += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()
