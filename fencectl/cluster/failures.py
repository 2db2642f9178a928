"""Ways in which an API server does not answer: a closed set, each with the sentence that a person reads."""

from __future__ import annotations

from enum import StrEnum

from fencectl.core.errors import FencectlError, NotReadableError


class Kind(StrEnum):
    """Where the way to an answer ended."""

    REFUSED = "connection refused"
    TIMEOUT = "timed out"
    DNS = "name not found"
    TLS = "TLS failed"
    RESET = "connection closed"
    PROXY = "proxy failed"


class WireError(Exception):
    """
    One try failed.

    `sent`: the request may have reached the server. `passing`: another try may go well. `stale`: the server had
    only hung up on a connection that was idle.
    """

    def __init__(self, kind: Kind, detail: str = "", *, sent: bool = False, passing: bool = True) -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.detail = detail
        self.sent = sent
        self.passing = passing
        self.stale = False

    @property
    def said(self) -> str:
        """What happened, in a few words."""
        return f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value


class Unreachable(NotReadableError):  # noqa: N818 - the name says the situation
    """The server gave no answer within the time that there was."""

    def __init__(
        self,
        cause: WireError,
        *,
        context: str,
        server: str,
        tries: int,
        elapsed_s: float,
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            f"{context} did not answer: {server}",
            reason=f'{cause.said}, {_tries(tries)} in {elapsed_s:.0f}s. This is not "no fence"',
            hint=_kubectl_hint(flags),
        )
        self.kind = cause.kind
        self.detail = cause.detail
        self.context = context
        self.server = server
        self.tries = tries
        self.elapsed_s = elapsed_s


class Unauthorised(NotReadableError):  # noqa: N818
    """The server does not know who we are (401), also after the credentials were fetched again."""

    def __init__(self, *, context: str, server: str, user: str, flags: tuple[str, ...] = ()) -> None:
        who = f"the credentials of user `{user}`" if user else "a request without credentials"
        super().__init__(
            f"{context} did not accept {who}: {server}",
            reason='401 Unauthorized: expired, or not for this cluster. This is not "no fence"',
            hint=_kubectl_hint(flags, "auth whoami"),
        )
        self.context = context
        self.server = server
        self.user = user


class AnswerTooLarge(NotReadableError):  # noqa: N818
    """An answer was longer than anything that is read here can be."""

    def __init__(self, *, context: str, path: str, limit: int) -> None:
        super().__init__(
            f"{context} answered {path} with more than {limit // 1_000_000} MB",
            reason='the answer was not read to its end. This is not "no fence"',
        )
        self.path = path
        self.limit = limit


class NoAnswer(NotReadableError):  # noqa: N818
    """A write was not answered. `sent` False: certainly not sent; True: it may have been applied."""

    def __init__(self, cause: FencectlError, *, sent: bool) -> None:
        super().__init__(cause.sentence, reason=cause.reason, hint=cause.hint)
        self.cause = cause
        self.sent = sent

    @property
    def cause_in_short(self) -> str:
        """That of its cause."""
        return self.cause.cause_in_short


def _tries(count: int) -> str:
    return "1 try" if count == 1 else f"{count} tries"


def _kubectl_hint(flags: tuple[str, ...], what: str = "get --raw /readyz") -> str:
    import shlex

    return " ".join(["kubectl", *(shlex.quote(flag) for flag in flags), what])
