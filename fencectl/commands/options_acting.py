"""
What the command line of every verb but `fences` and `release` asks for, as data.

Apart from what the reading verbs take: to define a dataclass takes a millisecond, which a look need not pay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fencectl.commands.options import Color, CommonOptions, Output


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
    `lease`: `NS/NAME`, beside which the record stands; None: from the config.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    words: tuple[str, ...] = ()
    reason: str | None = None
    until: str | None = None
    lease: str | None = None
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """
    `fencectl deploy -- COMMAND…`, or `-f PATH…`, `-k DIR`, or `--flux KIND/NS/NAME`.

    `files`: paths, `-` for stdin; `kustomization`: a folder; `namespace`: for objects that name none; `diff`: show
    the fields that change. `canary`: a path; `certify`: a command as typed. `lease`: `NS/NAME`; `suspend`:
    `kind/NS/NAME`; None or empty: from the config. Times in seconds, None: from the config, else the default.
    `adopt_kept`: take over what was kept after a rollback; `on_rollback`: `keep` or `resume`. `over_claim`: no
    claim stops it.
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
    files: tuple[str, ...] = ()
    kustomization: str | None = None
    namespace: str | None = None
    diff: bool = False
    force_conflicts: bool = False
    prune: bool = False
    applyset: str | None = None
    allow_partial_prune: bool = False
    flux: str | None = None
    revision: str | None = None
    canary: str | None = None
    certify: str | None = None
    allow_uncertified: bool = False
    adopt_kept: bool = False
    on_rollback: str | None = None
    over_claim: bool = False
    rollback: str | None = None
    rollback_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOptions:
    """
    `fencectl rollback [GENERATION]`.

    `generation`: as typed; None: the newest that can be undone. `timeout_s`: for the whole restore, None: from the
    config, else the default. `on_rollback`: `keep` or `resume`, None: from the config, else `keep`.
    """

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    generation: str | None = None
    lease: str | None = None
    on_rollback: str | None = None
    timeout_s: float | None = None
    drain_timeout_s: float | None = None
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """`fencectl history`. `words`: nothing, or `show` and a generation; `limit`: so many are listed."""

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    words: tuple[str, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """`fencectl doctor`. `rbac`: print this role instead of checking anything."""

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    rbac: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookOptions:
    """`fencectl runbook [NAME]`. `name`: None lists them."""

    common: CommonOptions = field(default_factory=CommonOptions)
    output: Output = Output.TEXT
    name: str | None = None
