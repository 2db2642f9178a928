"""
Read a PowerShell 7 command line into words: single quotes, double quotes with backtick escapes, bare words.

Written from about_Quoting_Rules and about_Special_Characters, and knowing nothing of how fencectl quotes.
"""

from __future__ import annotations

import re

SINGLE = "'\u2018\u2019\u201a\u201b"
DOUBLE = '"\u201c\u201d\u201e'
BLANK = " \t\u00a0\x85"
ENDS = "\r\n;|&<>(){}"


def powershell_words(line: str) -> list[str]:
    """The words of one command; raises AssertionError for whatever a plain word may not hold."""
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] in BLANK:
            at += 1
            continue
        word, at = _word(line, at)
        words.append(word)
    return words


def _word(line: str, at: int) -> tuple[str, int]:
    if line[at] in SINGLE:
        return _single(line, at + 1)
    if line[at] in DOUBLE:
        return _double(line, at + 1)
    start = at
    while at < len(line) and line[at] not in BLANK:
        assert line[at] not in SINGLE + DOUBLE + ENDS + "`$@#,"
        at += 1
    return line[start:at], at


def _single(line: str, at: int) -> tuple[str, int]:
    found = []
    while True:
        char = line[at]
        if char in SINGLE:
            if at + 1 < len(line) and line[at + 1] in SINGLE:
                found.append(line[at + 1])
                at += 2
                continue
            return "".join(found), at + 1
        found.append(char)
        at += 1


def _double(line: str, at: int) -> tuple[str, int]:
    found = []
    while True:
        char = line[at]
        if char == "`":
            match = re.compile(r"`u\{([0-9a-fA-F]{1,6})\}").match(line, at)
            assert match, "an escape that this test does not know"
            found.append(chr(int(match[1], 16)))
            at = match.end()
        elif char in DOUBLE:
            assert at + 1 == len(line) or line[at + 1] in BLANK
            return "".join(found), at + 1
        else:
            assert char != "$", "a variable would be expanded"
            found.append(char)
            at += 1
