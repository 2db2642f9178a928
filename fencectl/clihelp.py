"""
What the command line says: help, near misses, and answers to habits from other tools.

Plain text, grouped by risk. README quotes the help, and a test compares the two. A hint names only verbs and
flags that exist.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

# NB: Typer carries Click inside, under this private name, and exports the first of these classes only.
# pyproject.toml pins the Typer versions that this is true of.
from typer._click.exceptions import BadOptionUsage, BadParameter, NoSuchOption, UsageError as ClickUsageError

from fencectl.clitext import ROOT_HELP, VERB_HELP
from fencectl.core.errors import UsageError

NOTHING = "Nothing was read or changed"

# What people of other tools type for a verb.
_VERB_HABITS = {
    **dict.fromkeys(("status", "list", "ls", "get", "show", "check"), "fences"),
    **dict.fromkeys(("unlock", "unfence", "resume", "uncordon", "free"), "release"),
    **dict.fromkeys(("heal", "repair", "cleanup", "clean"), "recover"),
    **dict.fromkeys(("diagnose", "preflight", "auth", "can-i"), "doctor"),
    **dict.fromkeys(("log", "logs", "records", "past"), "history"),
    **dict.fromkeys(("runbooks", "playbook", "howto", "docs"), "runbook"),
    **dict.fromkeys(("freeze", "block", "pause", "maintenance", "incident", "claim"), "hold"),
    "version": "--version",
    "completion": "--show-completion",
}

_FILTERS = ("-n", "--namespace", "-A", "--all-namespaces", "-l", "--selector", "--field-selector")
_KUBECONFIG_HELD = (
    "-s", "--server", "--cluster", "--user", "--token", "--as", "--as-group", "--insecure-skip-tls-verify",
)  # fmt: skip
_WRITES = ("-y", "--yes", "--dry-run")
_Answer = tuple[str, str]


def _habits() -> dict[str, dict[str, _Answer]]:
    """Answer options that other tools have and a verb has not: the sentence, and the hint."""
    kubeconfig = ("{verb} has no option `{option}`", "set it in the kubeconfig, which is read as kubectl reads it")
    reading: dict[str, _Answer] = {
        **dict.fromkeys(_KUBECONFIG_HELD, kubeconfig),
        **dict.fromkeys(
            _WRITES, ("{verb} never writes, so there is nothing to confirm or to try", "leave it out")
        ),
        "--json": ("{verb} has no option `--json`", "did you mean `-o json`?"),
        "--color": (
            "{verb} has no option `--color`",
            "`--no-color`, or NO_COLOR or FORCE_COLOR in the environment",
        ),
        "--timeout": ("{verb} has no option `--timeout`", "did you mean `--request-timeout`?"),
    }
    own_cluster = ("demo knows its own cluster only, so it takes no `{option}`", "leave it out")
    return {
        "fences": {
            **reading,
            **dict.fromkeys(
                _FILTERS,
                (
                    "fences reads the whole cluster; a filter could hide a fence",
                    "leave `{option}` out; `{prog} release FENCE` prints the commands of one fence",
                ),
            ),
            "--wait": (
                "fences reports what is held now and waits for nothing",
                "`--watch` refreshes in place until ctrl-c",
            ),
            "--force": (
                "there is no `--force`: fences only reads",
                "`{prog} release --holder ID` prints commands for a holder that a person has proven dead",
            ),
            "--holder": (
                "fences reads the whole cluster; a filter could hide a fence",
                "`{prog} release --holder ID` prints the commands of one holder",
            ),
        },
        "release": {
            **reading,
            **dict.fromkeys(
                _FILTERS,
                (
                    "release reads the whole cluster; a filter could hide a fence that goes before",
                    "name the fence instead: {prog} release kustomization/NAMESPACE/NAME",
                ),
            ),
            "--wait": (
                "release prints commands and waits for nothing",
                "`{prog} fences --watch` shows when a fence is gone",
            ),
            "--force": (
                "there is no `--force`: each printed command tests what it releases",
                "`--holder ID` prints commands for a holder that a person has proven dead",
            ),
            **dict.fromkeys(
                ("-w", "--watch"),
                ("release prints commands once", "`{prog} fences --watch` refreshes in place"),
            ),
        },
        "recover": {
            **dict.fromkeys(_KUBECONFIG_HELD, kubeconfig),
            **dict.fromkeys(
                _FILTERS,
                (
                    "recover takes a holder's whole chain; a filter would leave a part of it fenced",
                    "`--holder ID` picks whose",
                ),
            ),
            "--force": (
                "there is no `--force`: recover releases what is proven dead",
                "`--accept-presumed` and `--node-verified NODE` are what a person can vouch for",
            ),
            "--wait": ("recover waits for nobody", "`{prog} fences --watch` shows when a holder is gone"),
            "--timeout": ("recover has no option `--timeout`", "did you mean `--request-timeout`?"),
        },
        "history": {
            **reading,
            **dict.fromkeys(_FILTERS, ("a record stands beside its lease", "`--context` picks the cluster")),
            **dict.fromkeys(
                ("-w", "--watch"),
                ("history is read once", "`{prog} fences --watch` shows what goes on now"),
            ),
        },
        "doctor": {
            **reading,
            **dict.fromkeys(_FILTERS, ("doctor checks what the verbs need", "leave `{option}` out")),
            "--fix": ("doctor changes nothing", "each line that is not ok names the next step"),
        },
        "runbook": {
            **reading,
            **dict.fromkeys(_FILTERS, ("a runbook is about the whole cluster", "leave `{option}` out")),
        },
        "hold": {
            **dict.fromkeys(_KUBECONFIG_HELD, kubeconfig),
            **dict.fromkeys(
                _FILTERS, ("a hold stands beside the lease, wherever that is", "`--context` picks the cluster")
            ),
            **dict.fromkeys(("-m", "--message"), ("hold has no option `{option}`", "did you mean `--reason`?")),
            **dict.fromkeys(
                ("--for", "--duration", "--timeout"), ("hold has no option `{option}`", "did you mean `--until`?")
            ),
            "--type": (
                "hold has no option `--type`",
                "the type stands after the action: {prog} hold place freeze",
            ),
            "--force": (
                "there is no `--force`: a hold is never overwritten",
                "lift it, with the reason, then place it again",
            ),
        },
        "demo": dict.fromkeys(
            ("--context", "--kubeconfig", "--config", "--profile", "-o", "--output", *_FILTERS, *_KUBECONFIG_HELD),
            own_cluster,
        ),
    }


def program() -> str:
    """How the user called this program, so that usage and hints can be pasted."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119  pathlib costs start-up time
    return "kubectl fencectl" if name.startswith("kubectl-fencectl") else "fencectl"


def help_text(verb: str | None) -> str:
    """The help of one verb, or of the program."""
    text = ROOT_HELP if verb is None else VERB_HELP[verb]
    return _EXAMPLE.sub(_aligned, text).replace("{prog}", program())


_EXAMPLE = re.compile(r"(?:^  \{prog\} .* {2,}.*\n)+", re.MULTILINE)


def _aligned(examples: re.Match[str]) -> str:
    """Examples with what they are for in one column, whichever of its two names the program has."""
    pairs = [re.split(" {2,}", line.strip().replace("{prog}", program())) for line in examples[0].splitlines()]
    column = max(44, *(len(command) + 3 for command, _ in pairs))
    return "".join(f"  {command:<{column}}{why}\n" for command, why in pairs)


# kubectl's two: what the client knows, and what the server would say.
_DRY_RUNS = {"--dry-run=client": "--dry-run", "--dry-run=server": "--dry-run-server"}
# What `deploy` tries, it always tries on the server.
_ONE_DRY_RUN = dict.fromkeys(_DRY_RUNS, "--dry-run")
_KUBECTL_V = re.compile(r"--?v(?:=?)(\d{1,3})", re.ASCII)


def soften(args: Sequence[str], *, verb: str | None = None) -> list[str]:
    """
    Read the spellings of kubectl.

    `-v=6`, `-v6`, `--v=6` and `-v 6` as `-vv`, `-v=1` as `-v`, `-v=0` as nothing; `--dry-run=server` and `=client`
    where the verb has both, or as the one that it has.
    """
    dry_runs = _DRY_RUNS if verb == "recover" else _ONE_DRY_RUN if verb == "deploy" else {}
    softened: list[str] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        if arg == "--":
            return [*softened, arg, *rest]
        level = None
        if match := _KUBECTL_V.fullmatch(arg):
            level = match[1]
        elif arg in ("-v", "--v") and rest and rest[0].isascii() and rest[0].isdecimal():
            level = rest.pop(0)
        if level is None:
            softened.append(dry_runs.get(arg, arg))
        elif int(level) > 0:
            softened.append("-v" if int(level) == 1 else "-vv")
    return softened


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one known word that was probably meant, or several that it begins."""
    words = sorted(known)
    starts = [option for option in words if len(word) > 3 and option.startswith("--") and option.startswith(word)]
    if starts:
        return "` or `".join(starts)
    # NB: at difflib's usual 0.6 `deploy` is taken for `demo`, and `--bogus` for `--verbose`.
    close = get_close_matches(word.lower(), words, n=1, cutoff=0.7)
    return close[0] if close else None


def unknown_verb(word: str, verbs: Sequence[str]) -> UsageError:
    """Answer a word that is no command."""
    there_are = f"there are: {', '.join(verbs)}"
    meant = _VERB_HABITS.get(word) or nearest(word, verbs)
    hint = f"did you mean `{program()} {meant}`? T{there_are[1:]}" if meant else there_are
    return UsageError(f"no command `{word}`", hint=hint)


def misplaced_option(args: Sequence[str], verbs: Sequence[str]) -> UsageError:
    """Answer an option that stands before the verb."""
    option = args[0].partition("=")[0]
    verb = next((word for word in args if word in verbs), None)
    if option.lower() in ("-version", "--ver") or option == "-V":
        return UsageError(f"no option `{option}`", hint="did you mean `--version`?")
    if verb is None:
        return UsageError(
            f"`{option}` needs a command before it",
            hint=f"{program()} COMMAND {option}; commands: {', '.join(verbs)}",
        )
    import shlex

    rest = list(args)
    rest.remove(verb)
    return UsageError(f"`{option}` goes after the verb", hint=f"{program()} {verb} {shlex.join(rest)}")


def unexpected_argument(verb: str, words: Sequence[str]) -> UsageError:
    """Answer a word that a verb without arguments got."""
    word = words[0]
    if verb == "fences" and "/" in word:
        hint = f"fences shows all, always; `{program()} release {word}` prints the command of one fence"
    elif verb == "fences":
        hint = f"did you mean `--context {word}`?"
    else:
        hint = f"{program()} {verb} --help shows what it takes"
    return UsageError(f"{verb} takes no argument, got `{word}`", hint=hint)


def explain(error: ClickUsageError, *, verb: str | None, options: Sequence[str]) -> UsageError:
    """Turn what Click found wrong with a verb's line, or before the verb, into a sentence of ours."""
    prog = program()
    hint = f"{prog} {verb} --help lists the options" if verb else f"{prog} --help lists the commands"
    match error:
        case NoSuchOption():
            option = error.option_name
            if answer := _habits().get(verb or "", {}).get(option):
                sentence, hint = (part.format(verb=verb, option=option, prog=prog) for part in answer)
                return UsageError(sentence, hint=hint)
            if meant := nearest(option, [known for known in options if known.startswith("--")]):
                hint = f"did you mean `{meant}`?"
            return UsageError(f"{verb or prog} has no option `{option}`", hint=hint)
        case BadOptionUsage():
            wants = "takes no value" if "not take" in error.message else "needs a value"
            return UsageError(f"`{error.option_name}` {wants}", hint=hint)
        case BadParameter():
            return _bad_value(error, hint=hint)
        case _:
            return UsageError(_as_sentence(error.format_message()), hint=hint)


def _bad_value(error: BadParameter, *, hint: str) -> UsageError:
    name = f"`{_origin(error)}`"
    if error.message.endswith("yes") and "boolean" in error.message:
        return UsageError(f"{name}: neither true nor false", hint=f"1 or 0, true or false. {NOTHING}")
    choices = [str(choice) for choice in getattr(getattr(error.param, "type", None), "choices", ())]
    found = re.match(r"'(.*)' is not one of ", error.message, re.DOTALL)
    if not choices or not found:
        return UsageError(f"{name}: {_as_sentence(error.message)}", hint=hint)
    meant = get_close_matches(found[1].lower(), choices, n=1, cutoff=0.5)
    there_are = f"there are: {', '.join(choices)}"
    hint = f"did you mean `{meant[0]}`? T{there_are[1:]}" if meant else there_are
    return UsageError(f"{name}: no choice `{found[1]}`", hint=hint)


def _origin(error: BadParameter) -> str:
    """Name the option, or the variable where the value came from the environment."""
    if error.param is None or error.ctx is None:
        return "an option"
    return origin_of(error.ctx, str(error.param.name), error.param.opts) or "an option"


def origin_of(ctx: Any, name: str, opts: Sequence[str]) -> str | None:
    """Where the value of a parameter comes from: its long option, its variable, or None for a default."""
    source = ctx.get_parameter_source(name)
    if source is not None and source.name == "ENVIRONMENT":
        return f"{ctx.auto_envvar_prefix}_{name.upper()}"
    if source is None or source.name == "DEFAULT":
        return None
    return max(opts, key=len, default=name)


def _as_sentence(text: str) -> str:
    text = text.strip().removesuffix(".")
    return text[:1].lower() + text[1:]
