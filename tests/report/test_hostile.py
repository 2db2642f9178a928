"""
case_40: text from elsewhere has no effect in any format.

Aspects: terminal, bidi, Rich markup, workflow commands, Markdown, HTML, quotes, line feeds, shells, metrics.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from fencectl.core.report import FenceReport
from fencectl.report.commands import zone
from fencectl.report.escape import is_visible
from fencectl.report.github import as_annotations
from fencectl.report.machine import report_object, to_json, to_yaml
from fencectl.report.markdown import as_markdown
from fencectl.report.openmetrics import as_openmetrics
from fencectl.report.release import patch_files, release_script
from fencectl.report.shell import Shell
from fencectl.report.style import Style
from fencectl.report.text import TextOptions, render
from fencectl.report.watch import Watched, frame, step
from tests.report import hostile, story

HOSTILE = [pytest.param(text, id=name) for name, text in hostile.TEXTS.items()]


def text_of(report: FenceReport) -> str:
    rendered = render([report], options=TextOptions(verbs=story.LATER_VERBS, explain=True))
    return rendered.stdout + rendered.stderr


def ascii_of(report: FenceReport) -> str:
    style = Style(unicode=False)
    options = TextOptions(verbs=story.VERBS, commands=False, out=style, err=style)
    rendered = render([report], options=options)
    assert rendered.stdout.isascii()
    return rendered.stdout + rendered.stderr


def script_of(report: FenceReport) -> str:
    block = report.blocks[0]
    entries = [replace(one, kept=False) for one in block.entries]
    return "".join(release_script(report, block, entries=entries, shell=shell, explain=True) for shell in Shell)


def watched(report: FenceReport) -> str:
    state, lines = step(Watched(), report)
    _, more = step(state, story.dead())
    return "\n".join([*lines, *more, frame([report], changed_at=None, verbs=story.VERBS)])


FORMATS: dict[str, Callable[[FenceReport], str]] = {
    "text": text_of,
    "ascii": ascii_of,
    "json": lambda report: to_json([report]),
    "yaml": lambda report: to_yaml([report]),
    "markdown": lambda report: as_markdown([report], verbs=story.LATER_VERBS, explain=True),
    "github": lambda report: as_annotations([report], verbs=story.LATER_VERBS),
    "openmetrics": lambda report: as_openmetrics([report]),
    "script": script_of,
    "watch": watched,
    "files": lambda report: "".join(f"{name}\n{text}" for name, text in patch_files(report.held).items()),
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", FORMATS)
def test_hostile_text_reaches_no_terminal_and_no_runner(form: str, text: str) -> None:
    """Nothing unseen, no control, and no line that a runner takes for a command but our own."""
    shown = FORMATS[form](hostile.report(text))
    shown.encode("utf-8")
    for line in shown.split("\n"):
        assert is_visible(line), ascii(line)
        assert "##[" not in line
        begins = line.strip().startswith("::")
        if form == "github" and begins:
            assert re.match(r"::(error|warning|notice) title=[^:,]*::", line), line
        else:
            assert not begins, line


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_further_annotation(text: str) -> None:
    """One per holder and kind of finding, whatever they are called."""
    lines = as_annotations([hostile.report(text)], verbs=story.VERBS).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::warning", "::warning", "::notice"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_whole_in_json_and_yaml(text: str) -> None:
    """Escaped for whoever looks at it, exact for whoever decodes it."""
    report = hostile.report(text)
    plain = report_object(report)
    assert json.loads(to_json([report])) == plain
    scalar = json.loads(json.dumps(plain).replace("\\ud800", "?").replace("\\udfff", "?"))
    assert yaml.safe_load(to_yaml([report])) == scalar


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_zone_runs_nothing_but_kubectl(tmp_path: Path, text: str) -> None:
    """The zone and the script are shell: comments, names and patches in them are inert."""
    for name in ("kubectl", "touch"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} >>"$OUT"\n')
        program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(tmp_path / "out"), "LC_ALL": "C.UTF-8"}
    report = hostile.report(text)
    entry = replace(report.blocks[0].entries[0], kept=False)
    script = release_script(report, report.blocks[0], entries=[entry], explain=True)
    for shown in ("\n".join(zone(report, explain=True)) + "\n", script):
        subprocess.run(
            ["sh"], input=shown.encode(), env=environment, cwd=tmp_path, capture_output=True, check=False
        )
        ran = (tmp_path / "out").read_text().split() if (tmp_path / "out").exists() else []
        assert set(ran) <= {"kubectl"}
        assert not (tmp_path / "pwned").exists()


# What zsh would do with a pasted comment: it takes none by default, so the rest of the line is words of a command.
ACTIVE_IN_WORDS = re.compile(r"[$'\"|&<>!\\]")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_comment_is_inert_where_comments_are_off(text: str) -> None:
    """No expansion, quote, pipe, list or redirection of foreign text is left in any comment."""
    for line in zone(hostile.report(text), explain=True):
        if line.startswith("#"):
            # A backslash only begins a spelled-out character.
            bare = re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", line)
            assert not ACTIVE_IN_WORDS.search(bare), line
            assert "touch pwned;" not in bare
            assert "`touch" not in bare


def flat(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in (token, *flat(token.children or []))]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_markdown_is_text(text: str) -> None:
    """No link, image, HTML, heading or list of it, no further cell, and the code fence holds."""
    report = hostile.report(text)
    page = as_markdown([report], verbs=story.LATER_VERBS, explain=True)
    tokens = flat(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page))
    kinds = {token.type for token in tokens}
    assert not kinds & {"link_open", "image", "html_inline", "hr", "em_open", "strong_open", "code_block"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h4"]
    for token in tokens:
        if token.type == "html_block":
            bare = re.sub(r"</?(details|summary|code)>", "", token.content)
            assert "<" not in bare
        if token.type == "text":
            assert not re.search(r"://|www\.|@|[<>|]", token.content), token.content
    fences = [token for token in tokens if token.type == "fence"]
    commands = zone(report, explain=True)
    assert [token.content for token in fences] == ["".join(f"{line}\n" for line in commands)]
    assert (page.count("<details>"), page.count("\n</details>\n")) == (2, 2) or text == hostile.TEXTS["html"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_markdown_table_makes_no_cell(text: str) -> None:
    """Every row has as many cells as its header."""
    page = as_markdown([hostile.report(text)], verbs=story.VERBS)
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    counts, columns = [], 0
    for token in tokens:
        if token.type == "tr_open":
            columns = 0
        elif token.type in {"th_open", "td_open"}:
            columns += 1
        elif token.type == "tr_close":
            counts.append(columns)
    rows = [line for line in page.split("\n") if line.startswith("| ") and "---" not in line[:12]]
    assert len(counts) == len(rows)
    assert set(counts) == {4, 5}
    # NB: markdown-it drops what is too much in a row, so the cells are counted in the text as well.
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in {5, 6}, row


SAMPLE = re.compile(r'[a-z_]+\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\} [0-9.]+')


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_openmetrics_is_a_label(text: str) -> None:
    """Every line is a sample or a comment of ours, and the end mark is the last."""
    *lines, end = as_openmetrics([hostile.report(text)]).split("\n")[:-1]
    assert end == "# EOF"
    for line in lines:
        assert SAMPLE.fullmatch(line) or re.match(r"# (TYPE|HELP|UNIT) fencectl_", line), line


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_names_no_path_of_a_patch_file(text: str) -> None:
    """A file's name is of one closed alphabet."""
    for name in patch_files(hostile.report(text).held):
        assert re.fullmatch(r"\d\d-[a-z0-9][a-z0-9.-]*\.json", name)
