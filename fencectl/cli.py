"""
The command line: what each verb takes, and the one boundary that turns errors into text and a status.

It imports typing, Typer and the errors only; each verb imports its own module when it runs, so that help,
completion and usage errors stay as cheap as Typer itself.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Literal

import typer

from fencectl import __version__, boundary
from fencectl.cliparts import (
    ConfigFile,
    Contexts,
    Explain,
    Kubeconfig,
    NoColor,
    ProfileChoice,
    RequestTimeout,
    Root,
    ShellChoice,
    Verb,
    Verbose,
    color_of,
    common_options,
    duration,
    not_empty,
    not_from_environment,
    one_context,
)
from fencectl.core.errors import UsageError

app = typer.Typer(
    cls=Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "FENCECTL", "help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fencectl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    # NB: not from the environment, see `_parse_and_run`: a CI job may well call the version it pins
    # FENCECTL_VERSION.
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    pass


@app.command("fences", cls=Verb, help="Report every fence held: holder, evidence, release command")
def fences(
    ctx: typer.Context,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 20 if a fence is held")] = False,
    explain: Explain = False,
    no_commands: Annotated[bool, typer.Option("--no-commands", help="Overview only")] = False,
    shell: ShellChoice = "posix",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Refresh in place")] = False,
    context: Contexts = None,
    output: Annotated[
        Literal["text", "json", "yaml", "markdown", "github", "openmetrics"],
        typer.Option("-o", "--output", help="Shape of the report"),
    ] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import FencesOptions, Output, Shell

    options = FencesOptions(
        common=common_options(ctx),
        output=Output(output),
        exit_code=exit_code,
        explain=explain,
        no_commands=no_commands,
        shell=Shell(shell),
        watch=watch,
    )
    if watch and options.output not in (Output.TEXT, Output.JSON):
        raise UsageError(f"`--watch` shows text or JSON lines, not {output}", hint="leave one of them out")
    if explain and no_commands:
        raise UsageError("`--explain` explains the commands that `--no-commands` leaves out", hint="choose one")
    from fencectl.commands import fences as command

    if watch:
        gc.enable()
    return command.run(options)


@app.command("release", cls=Verb, help="Print the release commands only; it changes nothing itself")
def release(
    ctx: typer.Context,
    fence: Annotated[
        list[str] | None, typer.Argument(metavar="FENCE", help="A fence, as `fences` names it")
    ] = None,
    holder: Annotated[str | None, typer.Option("--holder", metavar="ID", help="Only this holder's fences")] = None,
    explain: Explain = False,
    shell: ShellChoice = "posix",
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="DIR", help="Write patch files there")
    ] = None,
    context: Contexts = None,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Script or JSON")] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output, ReleaseOptions, Shell

    options = ReleaseOptions(
        common=common_options(ctx),
        fences=tuple(fence or ()),
        output=Output(output),
        explain=explain,
        shell=Shell(shell),
        holder=not_empty("--holder", holder),
        output_dir=not_empty("--output-dir", output_dir),
    )
    one_context("release", options.common.contexts)
    if options.output_dir is not None and options.output is not Output.TEXT:
        raise UsageError(f"`--output-dir` writes patch files, not {output}", hint="leave one of them out")
    from fencectl.commands import release as command

    return command.run(options)


def _history_words(ctx: typer.Context, incomplete: str) -> list[str]:
    return [] if ctx.params.get("words") else ["show"]


@app.command("history", cls=Verb, help="Past deploys of a target")
def history(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[show GENERATION]", autocompletion=_history_words, help="One deploy whole"),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="List so many")] = None,
    context: Contexts = None,
    output: Annotated[
        Literal["text", "json", "yaml", "markdown"], typer.Option("-o", "--output", help="Shape")
    ] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import HistoryOptions

    options = HistoryOptions(
        common=common_options(ctx), output=Output(output), words=tuple(words or ()), limit=limit
    )
    one_context("history", options.common.contexts)
    from fencectl.commands import history as command

    return command.run(options)


@app.command("doctor", cls=Verb, help="Check config, access, GitHub token, clock")
def doctor(
    ctx: typer.Context,
    rbac: Annotated[
        Literal["report", "recover", "deploy"] | None, typer.Option("--rbac", help="Print this role instead")
    ] = None,
    context: Contexts = None,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Text or JSON")] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import DoctorOptions

    options = DoctorOptions(common=common_options(ctx), output=Output(output), rbac=rbac)
    from fencectl.commands import doctor as command

    return command.run(options)


@app.command("deploy", cls=Verb, help="Apply manifests, or run a command, inside fences")
def deploy(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What to run, behind `--`")
    ] = None,
    filename: Annotated[
        list[str] | None, typer.Option("-f", "--filename", metavar="PATH", help="Manifests to apply")
    ] = None,
    kustomize: Annotated[
        str | None, typer.Option("-k", "--kustomize", metavar="DIR", help="A kustomization to apply")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="For objects that name none")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show each field that changes")] = False,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take fields over that others own")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete what is no longer rendered")] = False,
    applyset: Annotated[
        str | None, typer.Option("--applyset", metavar="NAME", help="The set that is pruned")
    ] = None,
    allow_partial_prune: Annotated[
        bool, typer.Option("--allow-partial-prune", help="Prune on a partial view too")
    ] = False,
    suspend: Annotated[
        list[str] | None, typer.Option("--suspend", metavar="FENCE", help="kind/NAMESPACE/NAME to suspend")
    ] = None,
    node: Annotated[list[str] | None, typer.Option("--node", metavar="NAME", help="A node to fence")] = None,
    node_selector: Annotated[
        str | None, typer.Option("--node-selector", metavar="LABELS", help="Nodes to fence, by label")
    ] = None,
    node_command: Annotated[
        str | None, typer.Option("--node-command", metavar="COMMAND", help="Run for each drained node")
    ] = None,
    max_unavailable: Annotated[
        int | None, typer.Option("--max-unavailable", min=1, metavar="N", help="So many nodes at once")
    ] = None,
    lease: Annotated[str | None, typer.Option("--lease", metavar="NS/NAME", help="The deploy's lease")] = None,
    lease_duration: Annotated[
        str | None, typer.Option("--lease-duration", metavar="DURATION", help="15s to 300s")
    ] = None,
    drain_timeout: Annotated[
        str | None, typer.Option("--drain-timeout", metavar="DURATION", help="0s: go on without the proof")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="How long the command may take")
    ] = None,
    wait_for_fences: Annotated[bool, typer.Option("--wait-for-fences", help="Wait while a holder lives")] = False,
    wait_timeout: Annotated[
        str | None, typer.Option("--wait-timeout", metavar="DURATION", help="Wait so long at most")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, change nothing")] = False,
    context: Contexts = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("-o", "--output", help="Text, or JSON lines")
    ] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import DeployOptions

    options = DeployOptions(
        common=common_options(ctx),
        output=Output(output),
        command=tuple(command or ()),
        lease=not_empty("--lease", lease),
        suspend=tuple(suspend or ()),
        nodes=tuple(node or ()),
        node_selector=not_empty("--node-selector", node_selector),
        node_command=not_empty("--node-command", node_command),
        max_unavailable=max_unavailable,
        drain_timeout_s=duration("--drain-timeout", drain_timeout, least_s=0),
        lease_duration_s=duration("--lease-duration", lease_duration),
        timeout_s=duration("--timeout", timeout),
        wait_for_fences=wait_for_fences,
        wait_timeout_s=duration("--wait-timeout", wait_timeout),
        dry_run=dry_run,
        files=tuple(not_empty("--filename", path) or "" for path in filename or ()),
        kustomization=not_empty("--kustomize", kustomize),
        namespace=not_empty("--namespace", namespace),
        diff=diff,
        force_conflicts=force_conflicts,
        prune=prune,
        applyset=not_empty("--applyset", applyset),
        allow_partial_prune=allow_partial_prune,
    )
    one_context("deploy", options.common.contexts)
    from fencectl.commands import deploy as command_module

    gc.enable()
    return command_module.run(options)


@app.command("recover", cls=Verb, help="Release what a provably dead holder left")
def recover(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, change nothing")] = False,
    # NB: how `--dry-run=server` is read, see `clihelp.soften`.
    dry_run_server: Annotated[bool, typer.Option("--dry-run-server", hidden=True)] = False,
    holder: Annotated[str | None, typer.Option("--holder", metavar="ID", help="Only this holder")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead holder")] = False,
    accept_presumed: Annotated[
        bool, typer.Option("--accept-presumed", help="Presumed dead is dead enough")
    ] = False,
    node_verified: Annotated[
        list[str] | None, typer.Option("--node-verified", metavar="NODE", help="A node that you have checked")
    ] = None,
    resume_kept: Annotated[
        list[str] | None, typer.Option("--resume-kept", metavar="FENCE", help="A kept suspension that may go")
    ] = None,
    watch_for: Annotated[
        str | None, typer.Option("--watch-for", metavar="DURATION", help="Watch the heartbeat longer than 40s")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask")] = False,
    context: Contexts = None,
    output: Annotated[Literal["text", "json", "github"], typer.Option("-o", "--output", help="Shape")] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import RecoverOptions

    options = RecoverOptions(
        common=common_options(ctx),
        output=Output(output),
        holder=not_empty("--holder", holder),
        every=every,
        accept_presumed=accept_presumed,
        verified_nodes=tuple(node_verified or ()),
        resume_kept=tuple(resume_kept or ()),
        watch_for_s=duration("--watch-for", watch_for),
        dry_run=dry_run or dry_run_server,
        rehearse=dry_run_server,
        yes=yes,
    )
    one_context("recover", options.common.contexts)
    if every and holder is not None:
        raise UsageError("`--all` and `--holder` contradict each other", hint="choose one")
    from fencectl.commands import recover as command

    gc.enable()
    return command.run(options)


def _hold_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the words of `hold`: the action first, then a type that can be placed, or the claim."""
    if not ctx.params.get("words"):
        return ["place", "lift", "list"]
    return ["freeze", "incident", "maintenance"]


@app.command("hold", cls=Verb, help="Place, lift or list a manual hold")
def hold(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="place|lift|list [TYPE]", autocompletion=_hold_words, help="What to do"),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME|DURATION", help="When it should be over")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask")] = False,
    context: Contexts = None,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Text or JSON")] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import HoldOptions

    options = HoldOptions(
        common=common_options(ctx),
        output=Output(output),
        words=tuple(words or ()),
        reason=not_empty("--reason", reason),
        until=not_empty("--until", until),
        yes=yes,
    )
    one_context("hold", options.common.contexts)
    from fencectl.commands import hold as command

    return command.run(options)


@app.command("demo", cls=Verb, help="The whole story on a cluster inside this program")
def demo(
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Play it without stops")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Keep the cluster up")] = False,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options_acting import DemoOptions

    options = DemoOptions(serve=serve, yes=yes, color=color_of(no_color=no_color), verbosity=verbose)
    from fencectl.commands import demo as command

    gc.enable()
    return command.run(options)


def main() -> int:
    """Run the program; the status is what `fencectl.core.errors` says, or the signal's."""
    # NB: a report is one pass over decoded data and then the end; collecting in between finds nothing and costs a
    # tenth of its time. Verbs that live longer turn it on again.
    gc.disable()
    return boundary.run(_parse_and_run)


def _parse_and_run(session: boundary.Session) -> int:
    command = typer.main.get_command(app)
    for param in command.params:
        not_from_environment(param)
    if "_FENCECTL_COMPLETE" in os.environ:
        command.main(sys.argv[1:], prog_name="fencectl")
    # NB: not `command.main`, which would turn a broken pipe into exit 1 and swallow an interrupt.
    try:
        with command.make_context("fencectl", sys.argv[1:], obj=session) as ctx:
            return int(command.invoke(ctx))
    except typer.Exit as leave:
        return int(leave.exit_code)
