"""
What a command line asks for, as data.

`fencectl.cli` fills these in from flags and environment; `fencectl.commands.common` adds the config and the
defaults. A command takes one of them and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Output(StrEnum):
    """The shapes of a report. `release` knows the first two only."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    GITHUB = "github"
    OPENMETRICS = "openmetrics"


class Color(StrEnum):
    """Whether colour is used: `AUTO` only on a terminal that can show it."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Shell(StrEnum):
    """The shell that printed commands are quoted for."""

    POSIX = "posix"
    POWERSHELL = "powershell"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """
    What every verb that reads a cluster takes. None or empty: not given.

    `contexts` in the order given, without repetitions. `origins`: for each option that was given, by its long
    name without dashes (`request-timeout`), where it comes from: `--request-timeout` or the variable's name.
    """

    contexts: tuple[str, ...] = ()
    kubeconfig: str | None = None
    config: str | None = None
    profile: str | None = None
    request_timeout_s: float | None = None
    color: Color = Color.AUTO
    verbosity: int = 0
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencesOptions:
    """
    `fencectl fences`.

    `no_commands`: the overview only. `older_than_s`: for `exit_code`, only what has been held for longer counts.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    exit_code: bool = False
    older_than_s: float | None = None
    explain: bool = False
    no_commands: bool = False
    shell: Shell = Shell.POSIX
    watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """
    `fencectl release [FENCE…]`.

    `fences`: as typed, `node/NAME`, `kind/NS/NAME` or `lease/NS/NAME`. `holder`: a holder's identity, or
    `RUN.ATTEMPT`. `output_dir`: write patch files there instead of a script.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    fences: tuple[str, ...] = ()
    output: Output = Output.TEXT
    explain: bool = False
    shell: Shell = Shell.POSIX
    holder: str | None = None
    output_dir: str | None = None
