"""
Who may do what.

kubectl sends no credentials over plain HTTP, so a user is chosen by the base path `/as/NAME`; a bearer
token or client that sends one is honoured as well. Rights are a short allow-list per user.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fencectl.sandbox import status
from fencectl.sandbox.gojson import quote
from fencectl.sandbox.requests import Action, Request

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Rule:
    """One permission. `resources` are `plural`, `plural/sub`, `plural.group` or `*.group`; `*` matches all."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    namespaces: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ()

    def allows(self, action: Action) -> bool:
        if not _in(action.verb, self.verbs):
            return False
        plain = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
        spelled = {plain, f"{plain}.{action.group}" if action.group else plain, f"*/{action.subresource}"}
        if action.group:
            spelled.add(f"*.{action.group}")
        if "*" not in self.resources and not spelled.intersection(self.resources):
            return False
        if self.names and action.name not in self.names:
            return False
        return "*" in self.namespaces or (bool(action.namespace) and action.namespace in self.namespaces)


def _in(value: str, allowed: tuple[str, ...]) -> bool:
    return "*" in allowed or value in allowed


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who talks to the sandbox."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    rules: tuple[Rule, ...] = ()
    uid: str = ""

    def may(self, action: Action) -> bool:
        return any(rule.allows(action) for rule in self.rules)


EVERYTHING = Rule(("*",), ("*",))


@dataclass(slots=True)
class Users:
    """The users of one sandbox."""

    _by_name: dict[str, User] = field(default_factory=dict)
    _by_token: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.add(ADMIN, rules=[EVERYTHING], groups=("system:masters",), token=ADMIN)

    def add(
        self, name: str, *, rules: Iterable[Rule] = (), groups: Iterable[str] = (), token: str | None = None
    ) -> User:
        """Add or replace a user. Without a token of its own its name is its token."""
        user = User(name, groups=(*groups, "system:authenticated"), rules=tuple(rules), uid=name)
        with self._lock:
            self._by_name[name] = user
            self._by_token[token or name] = name
        return user

    def allow(self, name: str, *verbs: str, resources: Iterable[str], namespaces: Iterable[str] = ("*",)) -> None:
        """Give a user one more right."""
        with self._lock:
            user = self._by_name[name]
            rule = Rule(verbs, tuple(resources), tuple(namespaces))
            self._by_name[name] = replace(user, rules=(*user.rules, rule))

    def remove(self, name: str) -> None:
        """Take a user away: the next request with its token is a 401."""
        with self._lock:
            self._by_name.pop(name, None)
            self._by_token = {token: owner for token, owner in self._by_token.items() if owner != name}

    def named(self, name: str) -> User | None:
        return self._by_name.get(name)

    def of(self, request: Request, action: Action) -> User:
        """Find out who asks; a token that nobody has is a 401."""
        name = request.as_user or ADMIN
        header = request.headers.get("authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or token.strip() not in self._by_token:
                raise status.unauthorized()
            name = self._by_token[token.strip()]
        user = self._by_name.get(name)
        if user is None:
            raise status.unauthorized()
        return self._impersonated(user, request.headers, action)

    def _impersonated(self, user: User, headers: Mapping[str, str], action: Action) -> User:
        name = headers.get("impersonate-user")
        if not name:
            if headers.get("impersonate-group") or headers.get("impersonate-uid"):
                uid = headers.get("impersonate-uid", "")
                shown = ", ".join(quote(item) for item in headers.get("impersonate-group", "").split(",") if item)
                spelled = f"[]string{{{shown}}}" if shown else "[]string(nil)"
                raise status.bad_request(
                    f'requested &user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{spelled}, '
                    "Extra:map[string][]string(nil)} without impersonating a user name"
                )
            return user
        if not user.may(Action(verb="impersonate", resource="users", name=name)):
            raise forbidden(user, action.with_verb(f"impersonate-on:user-info:{action.verb}"))
        groups = tuple(part for part in headers.get("impersonate-group", "").split(",") if part)
        known = self._by_name.get(name)
        rules = known.rules if known else ((EVERYTHING,) if "system:masters" in groups else ())
        if known and not groups:
            return known
        return User(
            name, groups=(*groups, "system:authenticated"), rules=rules, uid=headers.get("impersonate-uid", "")
        )


def forbidden(user: User, action: Action) -> status.StatusError:
    """Build the 403 with the words of the real server."""
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    where = f"in the namespace {quote(action.namespace)}" if action.namespace else "at the cluster scope"
    asked = f"{action.verb} resource {quote(resource)} in API group {quote(action.group)} {where}"
    why = f"User {quote(user.name)} cannot {asked}"
    what = status.qualified(action.resource, action.group)
    named = f"{what} {quote(action.name)}" if action.name else what
    return status.forbidden(
        f"{named} is forbidden: {why}", name=action.name, group=action.group, kind=action.resource
    )


def forbidden_path(user: User, verb: str, path: str) -> status.StatusError:
    return status.forbidden(f"forbidden: User {quote(user.name)} cannot {verb} path {quote(path)}")
