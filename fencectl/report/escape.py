"""
Foreign text made harmless: what a terminal, a shell, Markdown, a workflow log or a metrics page would act on.

Text off a cluster, from GitHub or from a kubeconfig may hold anything. `visible` is the base of all the others:
after it a text has no character that moves a cursor, reorders a line or cannot be seen.
"""

from __future__ import annotations

import re

MESSAGE_LIMIT = 200

# Control, format and bidi characters of the basic plane, line separators, lone surrogates and the two code points
# that are no characters. In a printed command these are written as \uXXXX (see `fencectl.report.commands`).
ACTIVE_BMP = (
    "\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
)
# What else is blank, ignorable or private: two names that differ by one of these alone look the same.
_BLANK = (
    "\xa0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164"
    "\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
# NB: a GitHub runner looks for `##[command]` anywhere in a line, for `::command::` at its start only
# (actions/runner, ActionCommand.cs). So the bracket is spelled out wherever it follows `##`.
ACTIVE = rf"[{ACTIVE_BMP}]|(?<=##)\["
_UNSEEN = re.compile(rf"[{ACTIVE_BMP}{_BLANK}]|(?<=##)\[")
_LOG_COMMAND = re.compile(r"(\s*(?:\x1b\[[0-9;]*m)*)(::|##\[)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ASCII_MARKS = str.maketrans({"…": "..", "→": "->", "·": ",", "✓": "ok", "✗": "x"})


def _spelled(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    r"""The text on one line, every character that is not plainly visible spelled out: `\x1b`, `\u202e`."""
    if text.isascii() and text.isprintable() and "##[" not in text:
        return text
    return _UNSEEN.sub(_spelled, text)


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Somebody else's message, cut so that it cannot bury the report: `… (+312)`. Never for names or commands."""
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit})"


def ascii_only(text: str) -> str:
    """The text for a terminal without UTF-8: our own marks in their ASCII spelling, the rest spelled out."""
    return text if text.isascii() else _NOT_ASCII.sub(_spelled, text.translate(_ASCII_MARKS))


def json_visible(encoded: str) -> str:
    r"""JSON text with every unseen character in its strings as `\uXXXX`: showing it does nothing."""
    if encoded.isascii() and "\x7f" not in encoded and "##[" not in encoded:
        return encoded
    # NB: line feeds between the values are no part of a string and stay.
    return _UNSEEN.sub(lambda match: match[0] if match[0] == "\n" else _json_spelled(match[0]), encoded)


def _json_spelled(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def yaml_visible(char: str) -> str:
    r"""One unseen character as YAML spells it inside of double quotes; JSON's surrogate pairs are not YAML."""
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_visible(text: str) -> bool:
    """Whether `visible` would leave the text alone."""
    return _UNSEEN.search(text) is None


def sub_unseen_yaml(document: str) -> str:
    """A YAML document whose unseen characters all stand inside of double quotes, with them spelled out."""
    return _UNSEEN.sub(lambda match: match[0] if match[0] == "\n" else yaml_visible(match[0]), document)


# NB: an interactive zsh takes no comments by default: a pasted `# …` line is a command there, and what is in it is
# expanded. So whatever a shell would expand, run, redirect or quote is spelled out in comments too.
_SHELL_ACTIVE = re.compile(r"[$`'\"|&<>!\\;(){}*?\[\]~^]")
_SHELL_RISKY = re.compile(r"[$'\"|&<>!\\]")


def _hex(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"


def in_comment(foreign: str) -> str:
    """Foreign text for a comment between commands: nothing in it acts even where `#` starts no comment."""
    return visible(_SHELL_ACTIVE.sub(_hex, foreign))


def sentence_in_comment(sentence: str) -> str:
    """A sentence that may quote foreign text, for a comment: without backticks and semicolons, then as foreign."""
    return in_comment(sentence.replace("`", "").replace(";", ","))


def words_in_comment(own: str) -> str:
    """Our own words for a comment, which may name something in backticks and use `;` and brackets."""
    return visible(_SHELL_RISKY.sub(_hex, own))


def log_safe(line: str) -> str:
    """A line for a log: where foreign text would begin it as a workflow command, `| ` goes in front."""
    return _LOG_COMMAND.sub(r"\1| \2", line, count=1) if _LOG_COMMAND.match(line) else line


def workflow_data(text: str) -> str:
    """The message of a workflow command. `%` goes first, or the escapes themselves would be escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """A property (such as the title) of a workflow command."""
    return workflow_data(text).replace(":", "%3A").replace(",", "%2C")


def label_value(text: str) -> str:
    """A label's value in OpenMetrics."""
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


# Prose that no Markdown reader makes anything of: no markup, no entity, no address, no mention, no emoji (`:x:`).
_PROSE = re.compile(r"(?:[A-Za-z0-9 ,.;?()/%+'…-]|:(?= |$)|(?<=\d):(?=\d)|(?<=[A-Za-z0-9])_(?=[A-Za-z0-9]))*")
_LINKED = re.compile(r"www\.|\b(?=[0-9]*[a-f])[0-9a-f]{7,40}\b|\bGH-\d", re.IGNORECASE)


def is_prose(text: str) -> bool:
    """Whether Markdown shows the text as it stands."""
    return _PROSE.fullmatch(text) is not None and _LINKED.search(text) is None


def code_span(text: str, *, cell: bool = False) -> str:
    """
    A Markdown code span: no markup, link, mention or HTML has an effect in it.

    `cell`: for a table, where a pipe ends the cell even inside of a code span.
    """
    shown = visible(text)
    if not shown.strip():
        return "(blank)" if shown else "(empty)"
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" or (shown[0] == " " and shown[-1] == " ") else ""
    span = f"{ticks}{pad}{shown}{pad}{ticks}"
    # NB: in a cell `\|` is the pipe itself, in code spans too, and only there.
    return span.replace("|", "\\|") if cell else span


def inline(text: str, *, cell: bool = False) -> str:
    """
    One line for Markdown: plain where it is prose, a code span where it is not.

    What stands in single backticks becomes a code span of its own, as our own sentences mean it.
    """
    shown = visible(text)
    pieces = shown.split("`")
    if len(pieces) % 2 == 0 or "" in pieces[1:-1]:
        return code_span(shown, cell=cell)
    if not all(is_prose(piece) for piece in pieces[::2]):
        return code_span(shown, cell=cell)
    return "".join(code_span(piece, cell=cell) if at % 2 else piece for at, piece in enumerate(pieces))


def html_inline(text: str) -> str:
    """One line for an HTML element inside of Markdown, such as `<summary>`."""
    import html  # its table of entities is for the Markdown formats only

    shown = visible(text)
    # NB: mentions and references are looked for in rendered text, but not inside of `<code>`.
    return shown if is_prose(shown) else f"<code>{html.escape(shown)}</code>"


def fence_for(block: str) -> str:
    """A code fence that is longer than any run of backticks in the block."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", block)), default=0))
