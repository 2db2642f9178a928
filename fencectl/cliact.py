"""What the verbs that act take. Each imports its own module when it runs."""

from __future__ import annotations

import gc
from typing import Annotated, Literal

import typer

from fencectl.cliparts import (
    ConfigFile,
    Contexts,
    Kubeconfig,
    NoColor,
    ProfileChoice,
    RequestTimeout,
    Verb,
    Verbose,
    app,
    color_of,
    common_options,
    duration,
    not_empty,
    offering,
    one_context,
)
from fencectl.core.errors import UsageError


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
    flux: Annotated[str | None, typer.Option("--flux", metavar="FENCE", help="Let Flux take a revision")] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REVISION", help="The one to follow")
    ] = None,
    canary: Annotated[
        str | None, typer.Option("--canary", metavar="PATH", help="Manifests that are applied first")
    ] = None,
    certify: Annotated[
        str | None, typer.Option("--certify", metavar="COMMAND", help="What certifies a canary, and nodes")
    ] = None,
    allow_uncertified: Annotated[
        bool, typer.Option("--allow-uncertified", help="Go on where nobody could certify it")
    ] = False,
    rollback_on: Annotated[
        Literal["on-failure", "never"] | None, typer.Option("--rollback", help="Put back what ran before")
    ] = None,
    rollback_timeout: Annotated[
        str | None, typer.Option("--rollback-timeout", metavar="DURATION", help="How long that may take")
    ] = None,
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
    on_rollback: Annotated[
        Literal["keep", "resume"] | None, typer.Option("--on-rollback", help="Suspensions after a rollback")
    ] = None,
    adopt_kept: Annotated[
        bool, typer.Option("--adopt-kept", help="Take over what was kept after a rollback")
    ] = False,
    over_claim: Annotated[
        bool, typer.Option("--over-claim", help="Also where a failed restore has left a claim")
    ] = False,
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
        flux=not_empty("--flux", flux),
        revision=not_empty("--revision", revision),
        canary=not_empty("--canary", canary),
        certify=not_empty("--certify", certify),
        allow_uncertified=allow_uncertified,
        over_claim=over_claim,
        on_rollback=on_rollback,
        adopt_kept=adopt_kept,
        rollback=rollback_on,
        rollback_timeout_s=duration("--rollback-timeout", rollback_timeout),
    )
    from fencectl.commands import deploy as command_module

    gc.enable()
    return command_module.run(options)


@app.command("recover", cls=Verb, help="Release what a provably dead holder left")
def recover(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, change nothing")] = False,
    # NB: how `--dry-run=server` is read, see `clihelp.soften`.
    dry_run_server: Annotated[bool, typer.Option("--dry-run-server", hidden=True)] = False,
    holder: Annotated[
        str | None,
        typer.Option("--holder", metavar="ID", autocompletion=offering("holders"), help="Only this holder"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead holder")] = False,
    accept_presumed: Annotated[
        bool, typer.Option("--accept-presumed", help="Presumed dead is dead enough")
    ] = False,
    node_verified: Annotated[
        list[str] | None,
        typer.Option(
            "--node-verified",
            metavar="NODE",
            autocompletion=offering("mutating"),
            help="A node that you have checked",
        ),
    ] = None,
    resume_kept: Annotated[
        list[str] | None,
        typer.Option(
            "--resume-kept",
            metavar="FENCE",
            autocompletion=offering("kept"),
            help="A kept suspension that may go",
        ),
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


@app.command("rollback", cls=Verb, help="Put back what ran before a deploy")
def rollback(
    ctx: typer.Context,
    generation: Annotated[
        str | None, typer.Argument(metavar="GENERATION", help="The deploy to undo; the newest by default")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, change nothing")] = False,
    on_rollback: Annotated[
        Literal["keep", "resume"] | None, typer.Option("--on-rollback", help="What becomes of suspensions")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="How long it may take")
    ] = None,
    lease: Annotated[str | None, typer.Option("--lease", metavar="NS/NAME", help="The deploy's lease")] = None,
    drain_timeout: Annotated[
        str | None, typer.Option("--drain-timeout", metavar="DURATION", help="0s: go on without the proof")
    ] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask")] = False,
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
    from fencectl.commands.options_acting import RollbackOptions

    options = RollbackOptions(
        common=common_options(ctx),
        output=Output(output),
        generation=generation,
        lease=not_empty("--lease", lease),
        on_rollback=on_rollback,
        timeout_s=duration("--timeout", timeout),
        drain_timeout_s=duration("--drain-timeout", drain_timeout, least_s=0),
        dry_run=dry_run,
        yes=yes,
    )
    one_context("rollback", options.common.contexts)
    from fencectl.commands import rollback as command

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
    lease: Annotated[str | None, typer.Option("--lease", metavar="NS/NAME", help="The deploys' lease")] = None,
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
        lease=not_empty("--lease", lease),
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
