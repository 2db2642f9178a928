"""What the verbs that only look take. Each imports its own module when it runs."""

from __future__ import annotations

import gc
from typing import Annotated, Literal

import typer

from fencectl.cliparts import (
    ConfigFile,
    Contexts,
    Explain,
    Kubeconfig,
    NoColor,
    ProfileChoice,
    RequestTimeout,
    ShellChoice,
    Verb,
    Verbose,
    app,
    common_options,
    duration,
    not_empty,
    offering,
    one_context,
)
from fencectl.core.errors import UsageError


@app.command("fences", cls=Verb, help="Report every fence held: holder, evidence, release command")
def fences(
    ctx: typer.Context,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 20 if a fence is held")] = False,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="DURATION", help="Exit 20 only for one held longer")
    ] = None,
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
        older_than_s=duration("--older-than", older_than),
        explain=explain,
        no_commands=no_commands,
        shell=Shell(shell),
        watch=watch,
    )
    if watch and options.output not in (Output.TEXT, Output.JSON):
        raise UsageError(f"`--watch` shows text or JSON lines, not {output}", hint="leave one of them out")
    if older_than is not None and not exit_code:
        raise UsageError("`--older-than` is for `--exit-code`: the report shows every fence", hint="give both")
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
        list[str] | None,
        typer.Argument(metavar="FENCE", autocompletion=offering("fences"), help="A fence, as `fences` names it"),
    ] = None,
    holder: Annotated[
        str | None,
        typer.Option(
            "--holder", metavar="ID", autocompletion=offering("holders"), help="Only this holder's fences"
        ),
    ] = None,
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


def _runbook_names(incomplete: str) -> list[str]:
    from fencectl.commands.runbook_files import names

    return [name for name in names() if name.startswith(incomplete)]


@app.command("runbook", cls=Verb, help="Print a runbook with this cluster's values")
def runbook(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", autocompletion=_runbook_names, help="Which one; without: the list"),
    ] = None,
    context: Contexts = None,
    output: Annotated[
        Literal["text", "markdown", "json"], typer.Option("-o", "--output", help="Shape of the text")
    ] = "text",
    config: ConfigFile = None,
    kubeconfig: Kubeconfig = None,
    profile: ProfileChoice = None,
    request_timeout: RequestTimeout = None,
    no_color: NoColor = False,
    verbose: Verbose = 0,
) -> int:
    from fencectl.commands.options import Output
    from fencectl.commands.options_acting import RunbookOptions

    options = RunbookOptions(common=common_options(ctx), output=Output(output), name=not_empty("NAME", name))
    one_context("runbook", options.common.contexts)
    from fencectl.commands import runbook as command

    return command.run(options)
