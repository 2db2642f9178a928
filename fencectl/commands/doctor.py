"""`fencectl doctor`: whether everything is there that the other verbs need, and what to do where it is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from fencectl.cluster.access import ask_access
from fencectl.cluster.clock import Clock, SystemClock
from fencectl.cluster.discovery import WITH_SUSPEND, discover_flux
from fencectl.cluster.read import Asked, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, decode_object
from fencectl.cluster.transport import Transport
from fencectl.commands.common import DEFAULT, Effective, TargetSettings, resolve
from fencectl.commands.options import Output
from fencectl.commands.options_acting import DoctorOptions
from fencectl.commands.output import style_of, write
from fencectl.commands.reading import Subject, subjects
from fencectl.commands.signals import parent_shell
from fencectl.core.doctor import Check, State, Value, code_of, judge_access
from fencectl.core.errors import ExitCode, FencectlError, UsageError, worst
from fencectl.core.refs import dig, text_or_none
from fencectl.core.rights import Role, accesses_for, documents_for
from fencectl.core.times import age_text
from fencectl.report.doctor import as_data, as_lines, document
from fencectl.report.escape import log_safe, visible
from fencectl.report.machine import encode_json, encode_yaml

DEADLINE_S = 10.0
# As the reports: less is noise of the network and of whole seconds in `Date`.
SKEW_S = 2.0


def run(options: DoctorOptions) -> ExitCode:
    """Print a role, or check each cluster in turn."""
    if options.rbac is not None:
        return _print_role(options, Role(options.rbac))
    try:
        effective = resolve(options.common)
    except UsageError as wrong:
        found = [Check("config", State.FAILURE, _said(wrong), wrong.hint)]
        _show(options, [("", "", found, [])])
        return ExitCode.DOCTOR_FAILED
    parts = [_examined(effective, one, options) for one in range(len(effective.targets))]
    _show(options, parts)
    return worst([code_of(checks) for _, _, checks, _ in parts])


def _print_role(options: DoctorOptions, role: Role) -> ExitCode:
    profile = resolve(options.common).one_target("doctor --rbac").profile
    documents = documents_for(role, profile)
    if options.output is Output.JSON:
        write(stdout=encode_json(documents))
    else:
        write(stdout="---\n".join(encode_yaml(one) for one in documents))
    return ExitCode.OK


_Part = tuple[str, str, Sequence[Check], Sequence[Value]]


def _examined(effective: Effective, number: int, options: DoctorOptions) -> _Part:
    target = effective.targets[number]
    checks = [_config(effective, target)]
    values = list(_values(effective, target))
    label, server = target.print_context or target.context or "the current context", ""
    clock = SystemClock()
    try:
        subject = subjects(effective)[number]
        connection = subject.connection
        label, server = target.print_context or connection.context_flag or connection.server, connection.server
        with subject.opened(clock) as door:
            checks += _cluster(subject, door, clock, options)
    except FencectlError as failure:
        checks.append(Check("cluster", State.FAILURE, _said(failure), failure.hint))
    checks += [_github(target, clock.wall()), *_place()]
    return label, server, checks, values


def _said(failure: FencectlError) -> str:
    return f"{failure.sentence}: {failure.reason}" if failure.reason else failure.sentence


def _config(effective: Effective, target: TargetSettings) -> Check:
    if effective.config is None:
        return Check("config", State.OK, "no fencectl.yaml here or above: defaults")
    named = f"target {target.target.name}" if target.target is not None else "no target of it"
    return Check("config", State.OK, f"{effective.config.path}, {named}")


def _values(effective: Effective, target: TargetSettings) -> Iterator[Value]:
    settings, origins = target.settings, target.origins
    lease = "/".join(target.profile.lease)
    yield Value("context", target.context or "the current one", origins["context"])
    yield Value("kubeconfig", effective.kubeconfig or "as kubectl", origins["kubeconfig"])
    yield Value("profile", str(target.profile.name), origins["profile"])
    yield Value("lease", lease, _first(origins, "lease.name", "lease.namespace"))
    yield Value("lease.duration", f"{settings.lease.duration_s or 30:g}s", origins["lease.duration"])
    yield Value("lease.discovery", str(settings.lease.discovery or "labelled"), origins["lease.discovery"])
    suspend = ", ".join(map(str, settings.suspend or ())) or "nothing"
    yield Value("suspend", suspend, origins["suspend"])
    yield Value("nodes.selector", settings.nodes.selector or "none", origins["nodes.selector"])
    yield Value("github.repository", target.repository or "none", origins["github.repository"])
    timeout_s = effective.request_timeout_s
    yield Value(
        "request-timeout", "by verb" if timeout_s is None else f"{timeout_s:g}s", origins["request-timeout"]
    )


def _first(origins: Mapping[str, str], *keys: str) -> str:
    return next((origins[key] for key in keys if origins[key] != DEFAULT), DEFAULT)


def _cluster(subject: Subject, door: Transport, clock: Clock, options: DoctorOptions) -> Iterator[Check]:
    deadline_s = options.common.request_timeout_s or DEADLINE_S
    reads = Reads(door, clock=clock, deadline_s=deadline_s)
    began_s = clock.monotonic_s()
    try:
        answer = reads.get("/version", asked=Asked("get", "/version"))
        version = text_or_none(dig(decode_object(answer.body), "gitVersion")) or "no version"
    except ReadFailedError as failed:
        raise failed.total or UsageError(f"{subject.connection.server}: {failed.why}") from failed
    except BadPageError:
        version = "no version that can be read"
    took_ms = (clock.monotonic_s() - began_s) * 1000
    yield Check("cluster", State.OK, f"{subject.connection.server}, {version}, answers in {took_ms:.0f}ms")
    yield _clock(reads)
    try:
        kinds = [(kind.group, kind.plural) for kind in discover_flux(reads).kinds]
    except ReadFailedError as failed:
        yield Check("flux", State.FAILURE, f"its kinds cannot be discovered: {failed.why}")
        return
    suspendable = [kind for kind in kinds if f"{kind[1]}.{kind[0]}" in WITH_SUSPEND]
    if suspendable:
        yield Check("flux", State.OK, f"{len(suspendable)} kinds can be suspended")
    else:
        yield Check("flux", State.WARNING, "not installed: no kind that can be suspended")
    yield from _rights(subject, door, kinds, deadline_s, options)


def _clock(reads: Reads) -> Check:
    skew_s = reads.server_clock.skew_s
    if skew_s is None:
        return Check("clock", State.WARNING, "the API server does not tell its time")
    side = "ahead of" if skew_s > 0 else "behind"
    if abs(skew_s) <= SKEW_S:
        return Check("clock", State.OK, f"{abs(skew_s):.1f}s {side} the API server's")
    said = f"{age_text(abs(skew_s))} {side} the API server's"
    return Check("clock", State.WARNING, said, "let NTP set this machine's clock; reports go by the server's")


def _rights(
    subject: Subject, door: Transport, kinds: Sequence[tuple[str, str]], deadline_s: float, options: DoctorOptions
) -> Iterator[Check]:
    profile = subject.settings.profile
    by_role = {role: accesses_for(role, profile, kinds) for role in Role}
    may = ask_access(door, by_role[Role.DEPLOY], deadline_s=max(deadline_s, DEADLINE_S))
    told: set[object] = set()
    for role, name in ((Role.REPORT, "fences"), (Role.RECOVER, "recover"), (Role.DEPLOY, "deploy")):
        more = [access for access in by_role[role] if access not in told]
        told.update(more)
        hint = f"`fencectl doctor --rbac {role}` prints the role"
        yield judge_access(name, more, may, hint=hint, reads=role is Role.REPORT)


def _github(target: TargetSettings, now: datetime) -> Check:
    from fencectl.evidence.github import GitHub, GitHubSettings

    settings = GitHubSettings.from_environment(os.environ)
    repository = target.repository
    why = GitHub(settings).why_unreadable(repository, now=now)
    if why is None:
        return Check("github", State.OK, f"{settings.host}: may read Actions of {repository}")
    what = f"{settings.host}: {why}; every verdict on a run there would be `unknown`"
    return Check(
        "github",
        State.WARNING,
        what,
        "the job needs `permissions: actions: read`, and its token in the environment",
    )


def _place() -> Iterator[Check]:
    """In CI: whether a cancel reaches this process (GitHub signals the entry process of a step only)."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    shell = parent_shell(os.environ)
    if shell is not None:
        what = f"started by {shell}: a cancelled step is noticed only when that shell has ended"
        yield Check("signals", State.WARNING, what, "end the step's script with `exec fencectl deploy …`")
    else:
        yield Check("signals", State.OK, "the entry process of its step: a cancel is told at once")


def _show(options: DoctorOptions, parts: Sequence[_Part]) -> None:
    if options.output is Output.JSON:
        found = [as_data(*part) for part in parts]
        write(stdout=encode_json(document(found)))
        return
    style = style_of(sys.stdout, options.common.color)
    lines: list[str] = []
    for label, _, checks, values in parts:
        if len(parts) > 1:
            lines += [*([""] if lines else []), style.bold(visible(label))]
        lines += as_lines(checks, values, style=style, every=options.common.verbosity > 0)
    write(stdout="".join(f"{log_safe(style.spelled(line))}\n" for line in lines))
