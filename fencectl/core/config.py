"""
`fencectl.yaml`: what it may say, and what it says for one target.

Strict: whatever is not understood is an error with file and line, because a key that was silently ignored is a
fence that was silently not placed. Pure: takes the text, reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

FILE_NAME = "fencectl.yaml"


class Discovery(StrEnum):
    """How leases are found: all that carry our label, or only the configured one (where listing is forbidden)."""

    LABELLED = "labelled"
    CONFIGURED = "configured"


class AfterRollback(StrEnum):
    """What becomes of suspensions after a rollback."""

    KEEP = "keep"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`lease:`. As everywhere below, None is "not said"."""

    namespace: str | None = None
    name: str | None = None
    duration_s: float | None = None
    discovery: Discovery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """`nodes:`."""

    selector: str | None = None
    max_unavailable: int | None = None
    command: tuple[str, ...] | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """`follow:`."""

    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certify:
    """`certify:`. `canary`: the part that is applied first."""

    canary: str | None = None
    command: tuple[str, ...] | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """`rollback:`."""

    on_failure: bool | None = None
    timeout_s: float | None = None
    after: AfterRollback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Github:
    """`github:`. `repository`: `owner/name`."""

    repository: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Suspend:
    """One object to suspend, `kind/namespace/name`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that may stand at the top and, for one target, under it."""

    lease: Lease = field(default_factory=Lease)
    suspend: tuple[Suspend, ...] | None = None
    nodes: Nodes = field(default_factory=Nodes)
    follow: Follow = field(default_factory=Follow)
    certify: Certify = field(default_factory=Certify)
    rollback: Rollback = field(default_factory=Rollback)
    github: Github = field(default_factory=Github)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One cluster. `context`: how this machine calls it; `print_context`: how those who paste commands do."""

    name: str
    context: str
    print_context: str | None = None
    overrides: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """
    A whole config.

    `lines`: where each key stands, by its path, such as `("targets", "prod", "lease", "name")`.
    """

    path: str
    targets: tuple[Target, ...] = ()
    settings: Settings = field(default_factory=Settings)
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def for_target(self, target: Target | None) -> Settings:
        """The settings that hold for a target: what it says itself, key by key, over what stands at the top."""
        return self.settings if target is None else _laid_over(self.settings, target.overrides)

    def origin(self, *keys: str, target: Target | None = None) -> str | None:
        """Where a value comes from, `fencectl.yaml:6`; None if the config does not say it."""
        paths = [keys] if target is None else [("targets", target.name, *keys), keys]
        return next((f"{self.path}:{self.lines[path]}" for path in paths if path in self.lines), None)


def _laid_over(below: Any, above: Any) -> Any:
    """Merge two of the same dataclass, deep: whatever `above` says wins, lists whole."""
    said: dict[str, Any] = {}
    for one in fields(above):
        value, under = getattr(above, one.name), getattr(below, one.name)
        if hasattr(value, "__dataclass_fields__"):
            said[one.name] = _laid_over(under, value)
        elif value is not None:
            said[one.name] = value
    return replace(below, **said)


def parse_config(text: str, *, path: str) -> Config:
    """Read a config; `ConfigError` says file, line, what is wrong and the nearest right key."""
    from fencectl.core.config_parse import Parser
    from fencectl.core.config_yaml import read_yaml

    return Parser(path).config(read_yaml(text, path=path))
