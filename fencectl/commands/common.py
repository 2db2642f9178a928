"""
What every verb needs before it reads a cluster: which clusters, under which names, with which settings.

Precedence everywhere: flag, environment, config, default. Each effective value knows where it comes from.
The rest of the tree gets its settings from here and looks neither at the environment nor for files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fencectl.commands.options import CommonOptions
from fencectl.core.config import FILE_NAME, Config, Discovery, Settings, Target, parse_config
from fencectl.core.errors import UsageError
from fencectl.core.profiles import PROFILES, Profile, ProfileName

NOTHING = "Nothing was read or changed"
DEFAULT = "default"
_MAX_BYTES = 1024 * 1024
_WRONG_NAMES = ("fencectl.yml", ".fencectl.yaml", ".fencectl.yml")


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    One cluster to read, and how.

    `context`: the kubeconfig context, None for its current one. `print_context`: the context for printed
    commands, None for the one that is read. `profile`: with the lease that config names. `settings`: of the
    config, for this target. `origins`: where each value comes from, by its key in the config (`lease.name`)
    or its option (`context`).
    """

    target: Target | None
    context: str | None
    print_context: str | None
    profile: Profile
    settings: Settings
    repository: str | None
    origins: Mapping[str, str] = msgspec.field(default_factory=dict)


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was decided before a cluster is asked. `request_timeout_s`: None for the reader's own."""

    options: CommonOptions
    config: Config | None
    kubeconfig: str | None
    request_timeout_s: float | None
    targets: tuple[TargetSettings, ...]

    def one_target(self, verb: str) -> TargetSettings:
        """The only target, for a verb that takes one; several and none picked is an error with the list."""
        if len(self.targets) == 1:
            return self.targets[0]
        names = ", ".join(str(each.context) for each in self.targets)
        raise UsageError(
            f"{verb} takes one cluster, and the config has {len(self.targets)} targets",
            hint=f"pick one with `--context`: {names}. {NOTHING}",
        )


def resolve(
    options: CommonOptions, *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Effective:
    """Find and read the config, and settle every value. `folder` and `environ`: of the process by default."""
    environ = os.environ if environ is None else environ
    config = _load(options, folder=folder)
    return Effective(
        options=options,
        config=config,
        kubeconfig=options.kubeconfig,
        request_timeout_s=options.request_timeout_s,
        targets=tuple(
            _settle(target, context, options=options, config=config, environ=environ)
            for target, context in _chosen(options, config, environ)
        ),
    )


def lease_name(text: str) -> tuple[str, str]:
    """Read `--lease NS/NAME`: namespace and name; raises UsageError."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(f"`{text}` is not `NAMESPACE/NAME`", hint=NOTHING)
    return namespace, name


def _load(options: CommonOptions, *, folder: Path | None) -> Config | None:
    if options.config is not None:
        path = Path(options.config)
        return parse_config(
            _read(path if folder is None else folder / path, shown=options.config), path=options.config
        )
    start = (folder or Path.cwd()).absolute()
    path_found = _find(start)
    if path_found is None:
        return None
    shown = os.path.relpath(path_found, start)
    return parse_config(_read(path_found, shown=shown, start=start), path=shown)


def _find(start: Path) -> Path | None:
    """Look for the config in a folder and all above it."""
    for folder in (start, *start.parents):
        path = folder / FILE_NAME
        if os.path.lexists(path):
            return path
        for name in _WRONG_NAMES:
            if os.path.lexists(folder / name):
                shown = os.path.relpath(folder / name, start)
                raise UsageError(
                    f"{shown} is not read", hint=f"name it {FILE_NAME}, or give `--config {shown}`. {NOTHING}"
                )
    return None


def _read(path: Path, *, shown: str, start: Path | None = None) -> str:
    """Read a config file. `start`: the folder that the search began in, None where the user named the file."""
    try:
        # NB: not blocking, or a FIFO of that name would hold the program up for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123  it is open already
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{shown}: not a file", hint=NOTHING)
            if start is not None:
                _refuse_planted(status, start=start, shown=shown)
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read", reason=error.strerror, hint=NOTHING) from error
    if len(content) > _MAX_BYTES:
        raise UsageError(f"{shown}: too long for a config, more than {_MAX_BYTES} bytes", hint=NOTHING)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown}:{line}: not valid UTF-8", hint=NOTHING) from error


def _refuse_planted(status: os.stat_result, *, start: Path, shown: str) -> None:
    """
    Refuse a config that was found, not named, and belongs to somebody else.

    NB: whoever may write to a folder above (`/tmp`) could otherwise pick the cluster, and the commands of a
    deploy. A checkout of another owner (as containers in CI have it) owns the folder one is in as well.
    """
    if not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid(), start.stat().st_uid):
        return
    raise UsageError(
        f"{shown} belongs to another user (uid {status.st_uid})",
        hint=f"if you trust it: `--config {shown}`. {NOTHING}",
    )


def _chosen(
    options: CommonOptions, config: Config | None, environ: Mapping[str, str]
) -> list[tuple[Target | None, str | None]]:
    """Pick the clusters: as named, else all targets of the config, else the current context."""
    targets = config.targets if config is not None else ()
    if options.contexts:
        return [_named(name, targets) for name in options.contexts]
    if len(targets) > 1 and (inside := _target_around(options, environ)):
        return [_named(inside, targets)]
    if targets:
        return [(target, target.context) for target in targets]
    return [(None, None)]


def _target_around(options: CommonOptions, environ: Mapping[str, str]) -> str | None:
    """
    In the command of a deploy: the context of that deploy's target, the only one in the kubeconfig that it gets.

    The config around such a command may have more targets; the command runs once for each, and is about one.
    """
    from fencectl.core.nesting import HOLDER_VARIABLE

    if not environ.get(HOLDER_VARIABLE):
        return None
    from fencectl.cluster.kubeconfig_merge import load

    return load(options.kubeconfig, environ, Path.home()).current_context or None


def _named(name: str, targets: tuple[Target, ...]) -> tuple[Target | None, str]:
    """
    Read a `--context`: a kubeconfig context, as kubectl takes it, or the name of a target.

    A context that a target has (either of its two) keeps its name, and gets that target's settings.
    """
    for target in targets:
        if name in (target.context, target.print_context):
            return target, name
    for target in targets:
        if name == target.name:
            return target, target.context
    return None, name


def _settle(
    target: Target | None,
    context: str | None,
    *,
    options: CommonOptions,
    config: Config | None,
    environ: Mapping[str, str],
) -> TargetSettings:
    settings = config.for_target(target) if config is not None else Settings()
    repository = settings.github.repository or environ.get("GITHUB_REPOSITORY") or None
    return TargetSettings(
        target=target,
        context=context,
        print_context=None if target is None else target.print_context or target.context,
        profile=_profile(options, settings),
        settings=settings,
        repository=repository,
        origins=_origins(target, options=options, config=config, repository=repository),
    )


def _profile(options: CommonOptions, settings: Settings) -> Profile:
    """Put the configured lease where it belongs: it is this tool's own, whichever profile is read."""
    name = ProfileName(options.profile) if options.profile else ProfileName.FENCECTL
    profile, own = PROFILES[name], PROFILES[ProfileName.FENCECTL]
    lease = (settings.lease.namespace or own.lease[0], settings.lease.name or own.lease[1])
    if name is not ProfileName.FENCECTL:
        return replace(profile, other_lease=lease)
    return replace(profile, lease=lease, by_label=settings.lease.discovery is not Discovery.CONFIGURED)


_KEYS = (
    ("lease", "namespace"), ("lease", "name"), ("lease", "duration"), ("lease", "discovery"), ("suspend",),
    ("nodes", "selector"), ("nodes", "max_unavailable"), ("nodes", "command"), ("nodes", "timeout"),
    ("follow", "timeout"), ("certify", "canary"), ("certify", "command"), ("certify", "timeout"),
    ("rollback", "on_failure"), ("rollback", "timeout"), ("rollback", "after"), ("github", "repository"),
)  # fmt: skip


def _origins(
    target: Target | None, *, options: CommonOptions, config: Config | None, repository: str | None
) -> dict[str, str]:
    origins = dict.fromkeys(("context", "kubeconfig", "config", "profile", "request-timeout"), DEFAULT)
    for keys in _KEYS:
        said = config.origin(*keys, target=target) if config is not None else None
        origins[".".join(keys)] = said or DEFAULT
    if repository is not None and origins["github.repository"] == DEFAULT:
        origins["github.repository"] = "GITHUB_REPOSITORY"
    if config is not None:
        origins["config"] = config.path
        if target is not None:
            origins["context"] = (
                config.origin("targets", target.name, "context")
                or config.origin("targets", target.name)
                or DEFAULT
            )
    return {**origins, **options.origins}
