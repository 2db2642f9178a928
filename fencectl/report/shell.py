"""
Arguments as a shell reads them back: POSIX `sh`, and PowerShell 7.3 and later.

An argument is one word on one physical line, and nothing in it moves a terminal's cursor.
"""

from __future__ import annotations

import re
import shlex
from enum import StrEnum

from fencectl.report.escape import ACTIVE

_ACTIVE = re.compile(ACTIVE)
_PRINTF_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:@,+= ")
_POWERSHELL_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|--?[A-Za-z][A-Za-z-]*(?:=[A-Za-z]+)?", re.ASCII)
# NB: PowerShell takes typographic quotes for quotes.
_POWERSHELL_SINGLE = re.compile("['\u2018\u2019\u201a\u201b]")
_POWERSHELL_ACTIVE = re.compile(rf"{ACTIVE}|[\"`$\u201c\u201d\u201e]")


class Shell(StrEnum):
    """The shells that commands are printed for."""

    POSIX = "posix"
    POWERSHELL = "powershell"


class NotPrintableError(ValueError):
    """No single line of this shell would give a program this argument; the message says why, quoting nothing."""


def quote(argument: str, *, shell: Shell = Shell.POSIX) -> str:
    """
    Quote one argument.

    Raises NotPrintableError where the shell has no way to hand it over.
    """
    if "\0" in argument:
        raise NotPrintableError("an argument cannot hold a NUL")
    return _powershell(argument) if shell == Shell.POWERSHELL else _posix(argument)


def _posix(argument: str) -> str:
    if _ACTIVE.search(argument) is None:
        # NB: zsh expands a leading `=`, which shlex leaves bare.
        return f"'{argument}'" if argument.startswith("=") else shlex.quote(argument)
    if argument.endswith("\n"):
        raise NotPrintableError("a shell drops the line feed at the end of an argument")
    try:
        # A path that is not UTF-8 comes with surrogates in the place of its bytes.
        data = argument.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise NotPrintableError("an argument holds half a character") from None
    # NB: printf's octal escapes are POSIX; $'…' is not, and dash does not know it. A leading dash would be read
    # as an option of printf, and a `!` within double quotes as history by an interactive bash.
    escaped = "".join(chr(byte) if byte in _PRINTF_PLAIN else f"\\{byte:03o}" for byte in data)
    return f"\"$(printf '{escaped}')\""


def _powershell(argument: str) -> str:
    if re.search("[\ud800-\udfff]", argument):
        raise NotPrintableError("an argument holds half a character")
    if _POWERSHELL_BARE.fullmatch(argument):
        return argument
    if _ACTIVE.search(argument) is None:
        return "'" + _POWERSHELL_SINGLE.sub(lambda match: match[0] * 2, argument) + "'"
    return '"' + _POWERSHELL_ACTIVE.sub(lambda match: f"`u{{{ord(match[0]):x}}}", argument) + '"'


def say(text: str, *, shell: Shell = Shell.POSIX) -> str:
    """A line of a script that writes `text` to stderr."""
    if shell == Shell.POWERSHELL:
        return f"[Console]::Error.WriteLine({_powershell_text(text)})"
    # NB: dash's echo acts on backslashes, so text that has any goes through printf.
    return f"echo {_single(text)} >&2" if "\\" not in text else f"printf '%s\\n' {_single(text)} >&2"


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _powershell_text(text: str) -> str:
    quoted = _powershell(text)
    return quoted if quoted[:1] in "'\"" else f"'{quoted}'"
