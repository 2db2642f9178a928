"""
`fencectl.yaml`: what it may say, and what it says for one target.

Strict: whatever is not understood is an error with file and line, because a key that was silently ignored is a
fence that was silently not placed. Pure: takes the text, reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

FILE_NAME = "fencectl.yaml"


class Discovery(StrEnum):
    """How leases are found: all that carry our label, or only the configured one (where listing is forbidden)."""

    LABELLED = "labelled"
    CONFIGURED = "configured"


class AfterRollback(StrEnum):
    """What becomes of suspensions after a rollback."""

    KEEP = "keep"
    RESUME = "resume"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """`lease:`. As everywhere below, None is "not said"."""

    namespace: str | None = None
    name: str | None = None
    duration_s: float | None = None
    discovery: Discovery | None = None


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes:`."""

    selector: str | None = None
    max_unavailable: int | None = None
    command: tuple[str, ...] | None = None
    timeout_s: float | None = None


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """`follow:`."""

    timeout_s: float | None = None


class Certify(msgspec.Struct, frozen=True, kw_only=True):
    """`certify:`. `canary`: the part that is applied first."""

    canary: str | None = None
    command: tuple[str, ...] | None = None
    timeout_s: float | None = None


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """`rollback:`."""

    on_failure: bool | None = None
    timeout_s: float | None = None
    after: AfterRollback | None = None


class Github(msgspec.Struct, frozen=True, kw_only=True):
    """`github:`. `repository`: `owner/name`."""

    repository: str | None = None


class Suspend(msgspec.Struct, frozen=True, order=True):
    """One object to suspend, `kind/namespace/name`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may stand at the top and, for one target, under it."""

    lease: Lease = msgspec.field(default_factory=Lease)
    suspend: tuple[Suspend, ...] | None = None
    nodes: Nodes = msgspec.field(default_factory=Nodes)
    follow: Follow = msgspec.field(default_factory=Follow)
    certify: Certify = msgspec.field(default_factory=Certify)
    rollback: Rollback = msgspec.field(default_factory=Rollback)
    github: Github = msgspec.field(default_factory=Github)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. `context`: how this machine calls it; `print_context`: how those who paste commands do."""

    name: str
    context: str
    print_context: str | None = None
    overrides: Settings = msgspec.field(default_factory=Settings)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """
    A whole config.

    `lines`: where each key stands, by its path, such as `("targets", "prod", "lease", "name")`.
    """

    path: str
    targets: tuple[Target, ...] = ()
    settings: Settings = msgspec.field(default_factory=Settings)
    lines: Mapping[tuple[str, ...], int] = msgspec.field(default_factory=dict)

    def for_target(self, target: Target | None) -> Settings:
        """The settings that hold for a target: what it says itself, key by key, over what stands at the top."""
        return self.settings if target is None else _laid_over(self.settings, target.overrides)

    def origin(self, *keys: str, target: Target | None = None) -> str | None:
        """Where a value comes from, `fencectl.yaml:6`; None if the config does not say it."""
        paths = [keys] if target is None else [("targets", target.name, *keys), keys]
        return next((f"{self.path}:{self.lines[path]}" for path in paths if path in self.lines), None)


def _laid_over(below: Any, above: Any) -> Any:
    """Merge two of the same struct, deep: whatever `above` says wins, lists whole."""
    said: dict[str, Any] = {}
    for name in above.__struct_fields__:
        value, under = getattr(above, name), getattr(below, name)
        if isinstance(value, msgspec.Struct):
            said[name] = _laid_over(under, value)
        elif value is not None:
            said[name] = value
    return msgspec.structs.replace(below, **said)


def parse_config(text: str, *, path: str) -> Config:
    """Read a config; `ConfigError` says file, line, what is wrong and the nearest right key."""
    from fencectl.core.config_parse import Parser
    from fencectl.core.config_yaml import read_yaml

    return Parser(path).config(read_yaml(text, path=path))
