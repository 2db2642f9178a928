"""`deploy --canary` and `--certify`: what is to be certified, checked whole before anything is read."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping

from fencectl.commands.common import NOTHING
from fencectl.commands.options_acting import DeployOptions
from fencectl.core.config import Settings
from fencectl.core.deploy import CertifyPlan
from fencectl.core.errors import UsageError

TIMEOUT_S = 300.0


def split_command(option: str, text: str) -> tuple[str, ...]:
    """Split a command as a shell would; raises UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as failure:
        raise UsageError(
            f"`{option}` cannot be split as a shell would: {str(failure).lower()}",
            reason=f"it is `{text}`",
            hint=NOTHING,
        ) from None
    if not words:
        raise UsageError(f"`{option}` holds no command", hint=NOTHING)
    return tuple(words)


def certify_of(options: DeployOptions, settings: Settings) -> CertifyPlan | None:
    """What is to be certified, by flags and config; None: nothing. Its objects are not planned yet."""
    canary = options.canary or settings.certify.canary or ""
    command = settings.certify.command or ()
    if options.certify is not None:
        command = split_command("--certify", options.certify)
    if not canary and not command:
        return None
    return CertifyPlan(
        command,
        source=canary,
        timeout_s=settings.certify.timeout_s or TIMEOUT_S,
        allow_uncertified=options.allow_uncertified,
    )


def check_certify(options: DeployOptions, settings: Settings, environ: Mapping[str, str]) -> None:
    """Refuse what could certify nothing; raises UsageError."""
    plan = certify_of(options, settings)
    if plan is None:
        if options.allow_uncertified:
            raise UsageError(
                "`--allow-uncertified` goes with `--canary` or `--certify`", hint=f"leave it out. {NOTHING}"
            )
        return
    if plan.source and not plan.command and not plan.allow_uncertified:
        raise UsageError(
            f"nothing would certify the canary {plan.source}",
            hint=f"name a command with `--certify`, or go on with `--allow-uncertified`. {NOTHING}",
        )
    if options.certify is not None and certifies_nothing(options, settings):
        raise UsageError(
            "`--certify` has nothing to certify: there is no canary, and no node is rolled",
            hint=f"name what is applied first with `--canary`. {NOTHING}",
        )
    # NB: to find that out with the canary live would leave somebody else to clear it up.
    if plan.command and shutil.which(plan.command[0], path=environ.get("PATH")) is None:
        raise UsageError(
            f"the certify command `{plan.command[0]}` is not found, or cannot be executed",
            hint=f"is it a path from the current folder, or on the PATH? {NOTHING}",
        )


def certifies_nothing(options: DeployOptions, settings: Settings) -> bool:
    """Whether a certify command would not run at all: neither a canary, nor a node that is rolled."""
    is_fenced = bool(options.nodes or options.node_selector or settings.nodes.selector)
    is_rolled = is_fenced and bool(options.node_command or settings.nodes.command)
    return not (options.canary or settings.certify.canary) and not is_rolled
