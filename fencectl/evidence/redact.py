"""Command lines that may be written where others read them: what looks like a secret is left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

MAX_LENGTH = 300
HIDDEN = "***"

_WORDS = (
    r"token|secret|passw|passphrase|pwd|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth|bearer|cookie"
    r"|session|webhook|dsn|connection[-_]?string"
)
_NAMED = re.compile(rf"({_WORDS})", re.IGNORECASE)
_ASSIGNED = re.compile(rf"([\w.-]*(?:{_WORDS})[\w.-]*[\"']?\s*[:=]\s*)(\S.*)", re.IGNORECASE | re.DOTALL)
_USERINFO = re.compile(r"(://)[^/\s@]+@")
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE)
_SHAPES = re.compile(
    r"gh[a-z]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*)*|sk-[\w-]{16,}|hvs\.[\w-]{16,}|AGE-SECRET-KEY-\w+",
    re.ASCII,
)
_LONG = re.compile(r"[A-Za-z0-9+_=-]{32,}", re.ASCII)


def redact_command(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """
    Spell a command in one line of at most 300 characters, without what looks like a secret.

    What a secret-looking variable of the environment holds counts as one. Too much is hidden rather than too
    little: the line is for a person who wonders which deploy this was.
    """
    planted = [value for name, value in environ.items() if _NAMED.search(name) and len(value) >= 6]
    # NB: a longer value may hold a shorter one, and must go first.
    planted.sort(key=len, reverse=True)
    shown, hide_next = [], False
    for argument in arguments:
        if hide_next and not argument.startswith("-"):
            shown.append(HIDDEN)
            hide_next = False
            continue
        hide_next = argument.startswith("-") and "=" not in argument and bool(_NAMED.search(argument))
        shown.append(_redact(argument, planted))
    line = " ".join(argument if argument == HIDDEN else shlex.quote(argument) for argument in shown)
    # NB: a cut may fall into a secret's place only after it has been hidden.
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= MAX_LENGTH else f"{line[: MAX_LENGTH - 3]}..."


def _redact(argument: str, planted: Sequence[str]) -> str:
    for value in planted:
        argument = argument.replace(value, HIDDEN)
    if "PRIVATE KEY" in argument:
        return HIDDEN
    argument = _USERINFO.sub(rf"\1{HIDDEN}@", argument)
    argument = _SCHEME.sub(rf"\1 {HIDDEN}", argument)
    argument = _SHAPES.sub(HIDDEN, argument)
    argument = _LONG.sub(_hide_random, argument)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", argument)


def _hide_random(match: re.Match[str]) -> str:
    """Hide what mixes cases and digits as only random text does; digests and names stay."""
    text = match.group()
    mixed = any(c.islower() for c in text) and any(c.isupper() for c in text) and any(c.isdigit() for c in text)
    return HIDDEN if mixed else text
