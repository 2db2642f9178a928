"""
The parts of the command line that verbs share: how a line is parsed, the options of every verb, and their values.

It imports typing, Typer and the errors only, so that help, completion and usage errors stay as cheap as Typer.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import typer
from typer._click.exceptions import UsageError as ClickUsageError
from typer.core import TyperCommand, TyperGroup

from fencectl import boundary, clihelp
from fencectl.core.errors import UsageError

# NB: what comes from Click is Any below: Typer carries Click under a private name.


class Root(TyperGroup):
    """The program: `fencectl VERB …`, with nothing but the verb, its help or the version in front."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(clihelp.help_text(None))

    def get_help_option(self, ctx: Any) -> Any:
        return not_from_environment(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        verbs = list(self.commands)
        if args[:1] == ["help"]:  # as kubectl, gh and helm take it
            args = [*args[1:2], "--help"]
        if not args:
            # NB: not 0: `fencectl $VERB` with an empty variable must not pass for "no fence is held".
            typer.echo(clihelp.help_text(None), err=True, nl=False)
            raise typer.Exit(2)
        first = args[0].partition("=")[0]
        if first.startswith("-") and first not in _root_options(self, ctx):
            raise clihelp.misplaced_option(args, verbs)
        if not first.startswith("-") and args[0] not in verbs:
            raise clihelp.unknown_verb(args[0], verbs)
        try:
            return super().parse_args(ctx, args)
        except ClickUsageError as error:
            raise clihelp.explain(error, verb=None, options=sorted(_root_options(self, ctx))) from error


def not_from_environment(option: Any) -> Any:
    """Keep an option to the command line: FENCECTL_HELP=1 must not turn every command into its help."""
    if option is not None:
        option.allow_from_autoenv = False
    return option


def _root_options(root: Root, ctx: Any) -> set[str]:
    return {option for param in root.get_params(ctx) for option in param.opts}


class Verb(TyperCommand):
    """One verb: its own help text, and errors in our words."""

    allow_extra_args = True  # so that an argument too much reaches `unexpected_argument`

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(clihelp.help_text(self.name))

    def get_help_option(self, ctx: Any) -> Any:
        return not_from_environment(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        verb = str(self.name)
        try:
            rest = super().parse_args(ctx, clihelp.soften(args, verb=verb))
        except ClickUsageError as error:
            shown = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
            options = [option for param in shown for option in param.opts]
            raise clihelp.explain(error, verb=verb, options=options) from error
        if rest:
            raise clihelp.unexpected_argument(verb, rest)
        return rest


def _keep_verbosity(ctx: typer.Context, value: int) -> int:
    """Tell the boundary, which must know it even where parsing goes on to fail."""
    session = ctx.find_root().obj
    if isinstance(session, boundary.Session):
        session.verbosity = value
    return value


def offering(what: str) -> Any:
    """Give what completes a value: contexts, or what is held on the cluster that the line names so far."""

    def offered(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        from fencectl.commands import completing

        return completing.offer(what, ctx.params, incomplete)

    return offered


Contexts = Annotated[
    list[str] | None,
    typer.Option("--context", metavar="NAME", autocompletion=offering("contexts"), help="Kubeconfig context"),
]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig file")]
ConfigFile = Annotated[str | None, typer.Option("--config", metavar="FILE", help="fencectl.yaml to use")]
ProfileChoice = Annotated[
    Literal["fencectl", "ghcr-bridge"] | None, typer.Option("--profile", help="Names to find fences under")
]
RequestTimeout = Annotated[
    str | None, typer.Option("--request-timeout", metavar="DURATION", help="Longest wait for one answer")
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour")]
Verbose = Annotated[
    int, typer.Option("-v", "--verbose", count=True, is_eager=True, callback=_keep_verbosity, help="Say more")
]
ShellChoice = Annotated[Literal["posix", "powershell"], typer.Option("--shell", help="Quote commands for it")]
Explain = Annotated[bool, typer.Option("--explain", help="Say what each command guards and changes")]


def common_options(ctx: typer.Context) -> Any:
    """Read what the reading verbs have in common off the parsed command line."""
    from fencectl.commands.options import CommonOptions

    given = ctx.params
    origins = {
        param.name.replace("_", "-"): origin
        for param in ctx.command.params
        if param.name is not None and (origin := clihelp.origin_of(ctx, param.name, param.opts))
    }
    contexts = [not_empty(origins.get("context", "--context"), name) for name in given["context"] or ()]
    return CommonOptions(
        contexts=tuple(dict.fromkeys(name for name in contexts if name is not None)),
        kubeconfig=not_empty("--kubeconfig", given["kubeconfig"]),
        config=not_empty("--config", given["config"]),
        profile=given["profile"],
        request_timeout_s=duration(origins.get("request-timeout", "--request-timeout"), given["request_timeout"]),
        color=color_of(no_color=given["no_color"]),
        verbosity=given["verbose"],
        origins=origins,
    )


def one_context(verb: str, contexts: tuple[str, ...]) -> None:
    if len(contexts) > 1:
        raise UsageError(
            f"{verb} takes one `--context`, got {', '.join(contexts)}", hint="run it once for each cluster"
        )


def not_empty(option: str, value: str | None) -> str | None:
    """Refuse an empty value: `--context "$CONTEXT"` with nothing in it would silently mean another cluster."""
    if value is not None and not value.strip():
        raise UsageError(f"`{option}` is empty", hint=f"leave it out or give a value. {clihelp.NOTHING}")
    return value


def duration(option: str, text: str | None, *, least_s: float | None = None) -> float | None:
    from fencectl.core.durations import SPELLINGS, parse_duration

    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is None:
        raise UsageError(f"`{option}`: `{text}` is no duration", hint=f"a duration, {SPELLINGS}")
    if seconds < 0 or (seconds == 0 and least_s is None):
        raise UsageError(f"`{option}`: must be more than 0", hint=f"every answer has a limit, {SPELLINGS}")
    return seconds


def color_of(*, no_color: bool) -> Any:
    """Flag, then NO_COLOR, then FORCE_COLOR, then the terminal: the order of no-color.org and its users."""
    from fencectl.commands.options import Color

    if no_color or os.environ.get("NO_COLOR"):
        return Color.NEVER
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return Color.ALWAYS
    return Color.NEVER if os.environ.get("TERM") == "dumb" else Color.AUTO


app = typer.Typer(
    cls=Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "FENCECTL", "help_option_names": ["-h", "--help"]},
)
