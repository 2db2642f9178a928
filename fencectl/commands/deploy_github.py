"""What a deploy leaves where people look in GitHub Actions: an output of the step, its summary, an annotation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fencectl.commands.deploy_streams import write_what_can
from fencectl.core.errors import ExitCode
from fencectl.report.escape import fence_for, inline, workflow_data, workflow_property

# NB: what is foreign was escaped before, so these are our own.
_SGR = re.compile(r"\x1b\[[0-9;]*m")

Warn = Callable[[str], None]


def tell_target(
    label: str,
    code: ExitCode,
    lines: Sequence[str],
    warn: Warn,
    *,
    is_only: bool,
    certification: str | None = None,
    noun: str = "deploy",
) -> None:
    """
    What came of one target: into the summary, and where it failed into an annotation.

    `is_only`: it is the only one, and the step's outputs are about it. `certification`: one of them; None where
    nothing began.
    """
    if not _in_actions():
        return
    if is_only:
        more = "" if certification is None else f"certification={certification}\n"
        _append("GITHUB_OUTPUT", f"outcome={code.name.lower()}\n{more}", warn)
    plain = [_SGR.sub("", line) for line in lines]
    _summarise(plain, warn)
    if code is not ExitCode.OK:
        _annotate(f"{label}: {noun} ended with {code.value}", plain)


def tell_all(code: ExitCode, sentence: str, outcomes: Mapping[str, ExitCode | None], warn: Warn) -> None:
    """
    What came of several targets together: `outcome` is the worst, `outcomes` has each by its name, as JSON.

    Those that failed have their annotations already.
    """
    if not _in_actions():
        return
    each = {label: "not_started" if one is None else one.name.lower() for label, one in outcomes.items()}
    _append(
        "GITHUB_OUTPUT", f"outcome={code.name.lower()}\noutcomes={json.dumps(each, ensure_ascii=True)}\n", warn
    )
    _summarise([_SGR.sub("", sentence)], warn)


def _in_actions() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _summarise(plain: Sequence[str], warn: Warn) -> None:
    sentence, rest = plain[0].partition(" ")[2], "\n".join(plain[1:])
    fence = fence_for(rest)
    block = f"\n{fence}text\n{rest}\n{fence}\n" if rest else ""
    _append("GITHUB_STEP_SUMMARY", f"#### {inline(sentence[:1].upper() + sentence[1:])}\n{block}\n", warn)


def _annotate(title: str, plain: Sequence[str]) -> None:
    line = f"::error title={workflow_property(title)}::{workflow_data(chr(10).join(plain))}\n"
    write_what_can(stderr=line)


def _append(variable: str, text: str, warn: Warn) -> None:
    path = os.environ.get(variable)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as failure:
        # NB: the deploy has ended as it has; that a file of the runner takes nothing changes no result.
        warn(f"{variable} could not be written ({failure})")
