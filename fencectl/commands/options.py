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
    """`fencectl fences`. `no_commands`: the overview only."""

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    exit_code: bool = False
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """`fencectl demo`. It knows its own cluster only, so it takes none of the options that pick another."""

    serve: bool = False
    yes: bool = False
    color: Color = Color.AUTO
    verbosity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions:
    """
    `fencectl recover`.

    `holder`: an identity, or `RUN.ATTEMPT`; `every`: all dead holders. `verified_nodes`: nodes that a person has
    checked; `resume_kept`: kept suspensions that may go, as `kind/NS/NAME`. `watch_for_s`: watch longer than the
    least window. `rehearse`: with `dry_run`, have the API server try each patch.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    holder: str | None = None
    every: bool = False
    accept_presumed: bool = False
    verified_nodes: tuple[str, ...] = ()
    resume_kept: tuple[str, ...] = ()
    watch_for_s: float | None = None
    dry_run: bool = False
    rehearse: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOptions:
    """
    `fencectl hold place|lift|list`.

    `words`: what stands after the verb, as typed: the action, and the type of the hold. `until`: as typed.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    words: tuple[str, ...] = ()
    reason: str | None = None
    until: str | None = None
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """
    `fencectl deploy -- COMMAND…`.

    `lease`: `NS/NAME`; `suspend`: `kind/NS/NAME`; None or empty: from the config. Times in seconds, None: from the
    config, else the default.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    command: tuple[str, ...] = ()
    lease: str | None = None
    suspend: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    node_selector: str | None = None
    node_command: str | None = None
    max_unavailable: int | None = None
    drain_timeout_s: float | None = None
    lease_duration_s: float | None = None
    timeout_s: float | None = None
    wait_for_fences: bool = False
    wait_timeout_s: float | None = None
    dry_run: bool = False
