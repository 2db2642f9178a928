"""
How a user entry logs in: which of its credentials counts, and what kubectl refuses.

The order is client-go's: a token or token file, else a password, beats a plugin or provider; a client
certificate goes beside a token and also beats a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencectl.cluster.credentials import (
    FixedTicket,
    KeyPair,
    KeyPairFiles,
    Ticket,
    TicketSource,
    TokenFile,
    WithKeyPair,
    basic,
    bearer,
    fits_a_header,
    impersonation_headers,
    os_reason,
    read_file,
)
from fencectl.cluster.kubeconfig_entries import ClusterEntry, UserEntry
from fencectl.core.errors import UsageError

if TYPE_CHECKING:
    from fencectl.cluster.clock import Clock
    from fencectl.cluster.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class Login:
    """What is needed to log in to one cluster; kept apart from `Connection` so that nothing secret is in it."""

    user: UserEntry
    cluster: ClusterEntry
    tls: TlsSettings | None
    environ: Mapping[str, str] = field(repr=False)

    @property
    def runs_plugin(self) -> bool:
        """Whether the entry's plugin counts: nothing that stands beside it logs in without it."""
        user = self.user
        other = user.token or user.token_file or user.username or user.password
        return self.tls is not None and user.exec is not None and not other and not _has_certificate(user)

    def source(self, clock: Clock) -> TicketSource:
        """Return where tickets come from. Over plain http nobody logs in, as with kubectl."""
        if self.tls is None:
            return FixedTicket(Ticket())
        source = self._source(clock)
        key_pair = _key_pair(self.user)
        return source if key_pair is None else WithKeyPair(source, key_pair)

    def _source(self, clock: Clock) -> TicketSource:
        user = self.user
        whose = f"user `{user.name}`"
        if user.token_file:
            return TokenFile(user.token_file, fallback=user.token, clock=clock)
        if user.token:
            return FixedTicket(Ticket(bearer(user.token, whose=whose)))
        if user.username or user.password:
            return FixedTicket(Ticket(basic(user.username, user.password)))
        if user.exec is not None and self.runs_plugin:
            from fencectl.cluster.exec_plugin import Plugin

            return Plugin(
                user.exec, whose=whose, cluster=self.cluster, tls=self.tls, environ=self.environ, clock=clock
            ).source()
        if user.auth_provider is not None:
            from fencectl.cluster.oidc import Oidc

            return Oidc(user, user.auth_provider, clock).source()
        return FixedTicket(Ticket())


def check_user(user: UserEntry) -> None:
    """Refuse what kubectl refuses, and what could only fail later and less clearly."""
    whose = f"user `{user.name}`"
    by_password = bool(user.username or user.password)
    if by_password and (user.token or user.token_file):
        raise UsageError(f"{whose} has a token and a password: keep one")
    if not fits_a_header(user.token):
        raise UsageError(f"the token of {whose} holds a character that no HTTP header can carry")
    if user.token_file and not user.token:
        _readable(user.token_file, f"the token file of {whose}")
    if _has_certificate(user):
        _check_certificate(user, whose)
    who = user.impersonation
    if not who.user and (who.uid or who.groups or who.extra):
        raise UsageError(f"{whose} has as-uid, as-groups or as-user-extra without `as`")
    impersonation_headers(who)
    if user.exec is not None:
        if user.auth_provider is not None:
            raise UsageError(f"{whose} has an exec plugin and an auth-provider: keep one")
        from fencectl.cluster.exec_plugin import check_entry

        check_entry(user.exec, whose=whose)
    if user.auth_provider is not None:
        from fencectl.cluster.oidc import check_provider

        check_provider(user.auth_provider, whose=whose)


def _has_certificate(user: UserEntry) -> bool:
    return bool(user.cert_file or user.cert_data)


def _check_certificate(user: UserEntry, whose: str) -> None:
    if user.cert_file and user.cert_data:
        raise UsageError(f"{whose} has both client-certificate and client-certificate-data: keep one")
    if user.key_file and user.key_data:
        raise UsageError(f"{whose} has both client-key and client-key-data: keep one")
    if not user.key_file and not user.key_data:
        raise UsageError(f"{whose} has a client certificate without client-key or client-key-data")
    for path, what in ((user.cert_file, "client certificate"), (user.key_file, "client key")):
        if path:
            _readable(path, f"the {what} of {whose}")


def _readable(path: str, what: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise UsageError(f"{what}, {path}, cannot be read: {os_reason(error)}") from None


def _key_pair(user: UserEntry) -> Callable[[], KeyPair | None] | None:
    if not _has_certificate(user):
        return None
    if user.cert_file and user.key_file:
        return KeyPairFiles(user.cert_file, user.key_file)
    pair = KeyPair(
        user.cert_data or _readable(user.cert_file, "the client certificate"),
        user.key_data or _readable(user.key_file, "the client key"),
    )
    return lambda: pair
