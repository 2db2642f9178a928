"""
What proves who we are, request by request.

A `Ticket` is what one request carries. A source hands out tickets, knows when they run out, and gets another
one when the server answers 401. No `repr` and no error text in here shows a secret.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fencectl.cluster.clock import Clock
from fencectl.cluster.kubeconfig_entries import Impersonation
from fencectl.core.errors import NotReadableError, UsageError

_TOKEN_FILE_PERIOD_S = 60.0
# NB: kubectl stops using what it read ten seconds before the minute is over.
_TOKEN_FILE_LEEWAY_S = 10.0

# What a header's name may consist of (RFC 9110); the rest of a key is percent-encoded, as client-go does.
_HEADER_NAME_BYTES = frozenset(b"!#$&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~")


class CredentialsMissing(NotReadableError):  # noqa: N818 - the name says the situation
    """Nothing to log in with: a plugin failed, a token file vanished, an id-token ran out."""

    @property
    def cause_in_short(self) -> str:
        """The sentence: it names the plugin or the file, which the reason only explains."""
        return self.sentence


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A client certificate with its key, as PEM."""

    cert: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ticket:
    """What one request carries: a header, a certificate, both, or neither."""

    authorization: str | None = field(default=None, repr=False)
    key_pair: KeyPair | None = None


class TicketSource(Protocol):
    """Hands out tickets; safe to be used by several threads."""

    def ticket(self, *, wait_s: float) -> Ticket:
        """Return what to send now, after at most `wait_s`; raise `CredentialsMissing` when there is none."""
        ...

    def renew(self, refused: Ticket, *, wait_s: float) -> bool:
        """After a 401: return whether `ticket` may now return something better than what was refused."""
        ...


class FixedTicket:
    """A token, a password or nothing, as the kubeconfig says it."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def ticket(self, *, wait_s: float) -> Ticket:
        return self._ticket

    def renew(self, refused: Ticket, *, wait_s: float) -> bool:
        return False


class TokenFile:
    """A token in a file that somebody rotates: read again each minute; it wins over a fixed token."""

    def __init__(self, path: str, *, fallback: str, clock: Clock) -> None:
        self._path = path
        self._token = fallback
        self._clock = clock
        self._read_again_s = float("-inf")

    def ticket(self, *, wait_s: float) -> Ticket:
        now_s = self._clock.monotonic_s()
        if now_s >= self._read_again_s:
            self._read(now_s)
        return Ticket(bearer(self._token, whose=self._path))

    def renew(self, refused: Ticket, *, wait_s: float) -> bool:
        self._read(self._clock.monotonic_s())
        return Ticket(bearer(self._token, whose=self._path)) != refused

    def _read(self, now_s: float) -> None:
        why = "is empty"
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                token = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            token = ""
            why = f"cannot be read: {os_reason(error)}"
        if token:
            self._token = token
            self._read_again_s = now_s + _TOKEN_FILE_PERIOD_S - _TOKEN_FILE_LEEWAY_S
        elif not self._token:
            raise CredentialsMissing(f"the token file {self._path} {why}")


class KeyPairFiles:
    """A client certificate in files that somebody rotates: read again when one of them changed."""

    def __init__(self, cert_file: str, key_file: str) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._stamp: tuple[int, ...] | None = None
        self._pair: KeyPair | None = None

    def __call__(self) -> KeyPair | None:
        try:
            stamp = (*_stamp(self._cert_file), *_stamp(self._key_file))
            if stamp != self._stamp:
                self._pair = KeyPair(read_file(self._cert_file), read_file(self._key_file))
                self._stamp = stamp
        except OSError as error:
            if self._pair is None:
                raise CredentialsMissing(
                    f"the client certificate {self._cert_file} cannot be read: {os_reason(error)}"
                ) from None
        return self._pair


class WithKeyPair:
    """Another source, and beside it a client certificate that the kubeconfig names."""

    def __init__(self, source: TicketSource, key_pair: Callable[[], KeyPair | None]) -> None:
        self._source = source
        self._key_pair = key_pair

    def ticket(self, *, wait_s: float) -> Ticket:
        return Ticket(self._source.ticket(wait_s=wait_s).authorization, self._key_pair())

    def renew(self, refused: Ticket, *, wait_s: float) -> bool:
        changed = self._key_pair() != refused.key_pair
        return self._source.renew(Ticket(refused.authorization), wait_s=wait_s) or changed


def fits_a_header(token: str) -> bool:
    """Return whether a token can stand in a header; else http.client would raise, with the token in its text."""
    return token.isascii() and token.isprintable()


def bearer(token: str, *, whose: str) -> str:
    """Return the header's value; a token that cannot stand in a header is refused without quoting it."""
    if not fits_a_header(token):
        raise CredentialsMissing(f"the token of {whose} holds a character that no HTTP header can carry")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """Return the header's value for a user name and a password."""
    pair = f"{username}:{password}".encode()
    return "Basic " + binascii.b2a_base64(pair, newline=False).decode("ascii")


def impersonation_headers(who: Impersonation) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of `as`, `as-uid`, `as-groups` and `as-user-extra`; none when nobody is impersonated."""
    if not who.user:
        return ()
    headers = [("Impersonate-User", who.user)]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers.extend(("Impersonate-Group", group) for group in who.groups)
    headers.extend(
        (f"Impersonate-Extra-{_header_name(key)}", value) for key, values in who.extra for value in values
    )
    for name, value in headers:
        if any(character in value for character in "\r\n\0"):
            raise UsageError(f"the kubeconfig's value for {name} holds a line break")
    return tuple((name, value.encode()) for name, value in headers)


def read_file(path: str) -> bytes:
    """Return a file's bytes."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def os_reason(error: Exception) -> str:
    """Return why a file could not be read, without its content."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return "it is not text"


def _stamp(path: str) -> tuple[int, int, int]:
    found = os.stat(path)  # noqa: PTH116
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _header_name(key: str) -> str:
    return "".join(chr(byte) if byte in _HEADER_NAME_BYTES else f"%{byte:02X}" for byte in key.encode())
