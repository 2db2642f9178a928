"""Aspects: values in commands and in code spans · hostile ones · those that are not known · list · JSON · a terminal."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from fencectl.core.runbooks import RUNBOOKS, Values, matching, values_of
from fencectl.report.escape import visible
from fencectl.report.runbook import (
    Block,
    Cluster,
    as_data,
    document,
    fill,
    list_lines,
    list_markdown,
    parts_of,
    unfilled,
)
from fencectl.report.runbook_terminal import rendered
from fencectl.report.style import PLAIN, Style
from tests.report import story
from tests.report.hostile import TEXTS

PROD = Cluster(
    label="prod", server="https://x", context="prod-admin", print_context="prod", reached=True, complete=True
)
TEXT = """# Dead holder: refused with 16

## Do this

Who is `{holder}`? Ask `kubectl --context {context} get node {node}`:

```sh
fencectl recover --context {context} --holder {holder}
kubectl --context {context} get {resource} {name} --namespace {namespace} -o yaml
```

A JSON path is none: `{.spec.x}`, and `{unknown-word}` neither.
"""


def values(**known: str) -> Values:
    return Values({name.replace("_", "-"): value for name, value in known.items()})


def test_values_go_into_commands_as_words_and_into_prose_as_code() -> None:
    """fencectl takes the context that it reads by, kubectl the one that people use."""
    filled = fill(TEXT, values(holder="h-1", node="n", resource="node", name="n", namespace="apps"), PROD)
    [block] = filled.blocks
    assert block.text.splitlines() == [
        "fencectl recover --context prod-admin --holder h-1",
        "kubectl --context prod get node n --namespace apps -o yaml",
    ]
    assert "Who is `h-1`? Ask `kubectl --context prod get node n`:" in filled.markdown
    assert "`{.spec.x}`, and `{unknown-word}`" in filled.markdown
    assert filled.markdown.startswith("# Dead holder: refused with 16\n\n> Filled in for prod.\n\n## Do this\n")
    assert filled.missing == {}


def test_kubeconfig_and_profile_that_were_given_go_with_the_context() -> None:
    """The command must reach the cluster that was read; kubectl knows no profile."""
    cluster = Cluster(
        label="prod",
        context="prod",
        kubeconfig="/tmp/my config",
        profile="ghcr-bridge",
        reached=True,
        complete=True,
    )
    [block] = fill(TEXT, values(holder="h"), cluster).blocks
    first, second = block.text.splitlines()
    assert (
        first == "fencectl recover --kubeconfig '/tmp/my config' --context prod --profile ghcr-bridge --holder h"
    )
    assert second.startswith("kubectl --kubeconfig '/tmp/my config' --context prod get ")


def test_cluster_without_a_context_needs_none() -> None:
    """In a pod: the option goes, for there is nothing to name."""
    [block] = fill(TEXT, values(holder="h"), Cluster(label="https://10.0.0.1", reached=True, complete=True)).blocks
    assert block.text.splitlines()[0] == "fencectl recover --holder h"


def test_object_without_a_namespace_loses_the_option() -> None:
    """A node has none."""
    known = Values({"resource": "node", "name": "n"}, without=frozenset({"namespace"}))
    [block] = fill(TEXT, known, PROD).blocks
    assert block.text.splitlines()[1] == "kubectl --context prod get node n -o yaml"


def test_what_is_not_known_stays_and_says_why() -> None:
    """With the cluster away the page is still what one needs; the context is known all the same."""
    away = Cluster(label="prod", context="prod", why="prod did not answer: connection refused")
    filled = fill(TEXT, Values(), away)
    assert filled.blocks[0].text.startswith("fencectl recover --context prod --holder {holder}\n")
    assert set(filled.missing) == {"holder", "node", "resource", "name", "namespace"}
    assert "> prod was not read: prod did not answer: connection refused.\n" in filled.markdown
    assert "Not filled in: `{holder}`, `{node}`," in filled.markdown
    nowhere = fill(TEXT, Values(), Cluster(why="there is no ~/.kube/config"))
    assert nowhere.blocks[0].text.startswith("fencectl recover --context {context} --holder {holder}\n")
    assert "> No cluster was read: " in nowhere.markdown


def test_report_that_is_not_whole_is_said_to_be() -> None:
    """A fence that could not be read may be the one that matters."""
    part = Cluster(label="prod", context="prod", reached=True, why="nodes could not be read")
    assert (
        "> Filled in for prod, which could not be read whole.\n" in fill(TEXT, values(holder="h"), part).markdown
    )


def test_one_of_several_is_filled_in_and_all_are_named() -> None:
    """Whoever copies the line must know that there are others."""
    book = next(one for one in RUNBOOKS if one.name == "dead-holder")
    known = values_of(matching(book, story.dead()), lease=("a", "b"), generation=None)
    filled = fill(TEXT, known, PROD)
    assert filled.notes == ("2 nodes match: `worker-3`, `worker-2`; the first is filled in.",)
    assert f"> {filled.notes[0]}\n" in filled.markdown


def test_option_that_vouches_is_given_once_for_each() -> None:
    """One left out would stop the recovery."""
    text = "# T\n\n```sh\nfencectl recover --context {context} --node-verified {node}\n```\n"
    known = Values({"node": "a"}, several={"node": ("a", "b c")})
    [block] = fill(text, known, PROD).blocks
    assert block.text == "fencectl recover --context prod-admin --node-verified a --node-verified 'b c'\n"


def test_all_fences_of_one_holder_are_words_of_one_command() -> None:
    """In the order in which they go."""
    text = "# T\n\n```sh\nfencectl release --context {context} {fences}\n```\n"
    known = Values({"fences": "a/b"}, several={"fences": ("a/b", "c d")})
    [block] = fill(text, known, PROD).blocks
    assert block.text == "fencectl release --context prod-admin a/b 'c d'\n"


HOSTILE = {name: text for name, text in TEXTS.items() if "\0" not in text and not text.endswith("\n")}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_value_is_one_word_of_a_command_and_nothing_of_markdown(name: str, tmp_path: Path) -> None:
    """A holder's identity is whatever somebody wrote there."""
    text = HOSTILE[name]
    script = "# T\n\n`{holder}`\n\n```sh\nfencectl --holder {holder}\n```\n\nend `x`\n"
    filled = fill(script, values(holder=text), PROD)
    [block] = filled.blocks
    assert len(block.text.splitlines()) == 1
    if "{holder}" not in block.text:
        done = subprocess.run(
            ["sh", "-c", block.text.replace("fencectl", "printf '%s|'", 1)],
            capture_output=True, cwd=tmp_path, check=True, timeout=30,
        )  # fmt: skip
        assert done.stdout.decode("utf-8", "surrogateescape") == f"--holder|{text}|"
        assert list(tmp_path.iterdir()) == []
    tokens = MarkdownIt().parse(filled.markdown)
    spans = [child for token in tokens for child in token.children or () if child.type == "code_inline"]
    assert [span.content for span in spans[-2:]] == [visible(text), "x"]
    inlines = [token.children or [] for token in tokens if token.type == "inline"]
    assert [len(children) for children in inlines[-2:]] == [1, 2], "nothing beside the one code span"
    kinds = [token.type for token in tokens]
    assert kinds == [
        "heading_open", "inline", "heading_close", "blockquote_open", "paragraph_open", "inline", "paragraph_close",
        "blockquote_close", "paragraph_open", "inline", "paragraph_close", "fence", "paragraph_open", "inline",
        "paragraph_close",
    ]  # fmt: skip
    assert all(ord(char) >= 32 or char == "\n" for char in filled.markdown)


def test_value_that_no_shell_can_be_handed_stays_a_placeholder() -> None:
    """Half a command is worse than a gap."""
    filled = fill(TEXT, values(holder="x\n"), PROD)
    assert "--holder {holder}" in filled.blocks[0].text
    assert "holder" in filled.missing


def test_hostile_name_of_a_cluster_is_harmless_in_the_note() -> None:
    """A context may be called anything."""
    filled = fill(TEXT, values(holder="h"), Cluster(label="](http://x) <b>", reached=True, complete=True))
    assert "> Filled in for `](http://x) <b>`.\n" in filled.markdown


def test_list_shows_what_matches_now_within_80_columns() -> None:
    """As the screen has it: name, sign, how many."""
    report = story.dead()
    books = [(book, matching(book, report), 0) for book in RUNBOOKS]
    lines = list_lines(books)
    assert lines[0] == "still-fenced      a deploy ended with exit 11              5 fences match now"
    assert lines[2] == "unknown-holder    nobody can say whether the holder lives"
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line != line.rstrip()] == []
    table = list_markdown(books)
    assert "| `dead-holder` | a deploy was refused with exit 16 | 5 fences match now |" in table


def test_json_has_the_values_that_are_missing_and_the_commands() -> None:
    """For whoever builds on it."""
    book = next(one for one in RUNBOOKS if one.name == "dead-holder")
    matches = matching(book, story.dead())
    filled = fill(TEXT, Values(), PROD)
    found = document("Runbook", PROD, **as_data(book, matches, PROD, filled))
    assert (found["kind"], found["context"], found["exitCodes"]) == ("Runbook", "prod-admin", [16])
    assert found["matches"][0] == "node/worker-3"
    assert found["commands"] == [filled.blocks[0].text]
    assert {one["placeholder"] for one in found["notFilledIn"]} == set(filled.missing)
    assert as_data(book, (), Cluster())["matches"] is None


@pytest.mark.parametrize("width", [80, 200])
def test_terminal_gets_prose_that_fits_and_commands_on_one_line_each(width: int) -> None:
    """Whatever its width: a line that was wrapped by a program does not copy."""
    long = "x" * 120
    filled = fill(TEXT, values(holder=long), PROD)
    lines = rendered(filled, style=PLAIN, width=width).splitlines()
    assert lines[0] == "Dead holder: refused with 16"
    assert "Do this" in lines
    assert f"fencectl recover --context prod-admin --holder {long}" in lines
    prose = [line for line in lines if long not in line and not line.startswith("kubectl")]
    assert max(map(len, prose)) <= 100
    assert "```" not in "".join(lines)
    assert re.search(r"\n\n\n", "\n".join(lines)) is None


def test_terminal_without_colour_or_utf8_gets_neither() -> None:
    """NO_COLOR, TERM=dumb: plain letters."""
    text = "# T\n\n> a note\n\nA `code` and a dash.\n\n- one\n\n| a | b |\n| --- | --- |\n| `c` | d |\n"
    filled = unfilled(text)
    plain = rendered(filled, style=Style(colour=False, unicode=False), width=80)
    assert plain.isascii()
    assert "\\u" not in plain
    for words in ("| a note", "A `code` and", "* one", "`c`", "---"):
        assert words in plain
    assert "\x1b" not in plain
    assert "\x1b[" in rendered(filled, style=Style(colour=True), width=80)


def test_command_of_a_block_survives_the_terminal_as_it_is() -> None:
    """Past Rich: no markup, no wrap, no indent."""
    line = shlex.join(["kubectl", "get", "app[web]", "[/x]"]) + " | cat"
    shown = rendered(unfilled(f"# T\n\n```sh\n{line}\n```\n"), style=PLAIN, width=40)
    assert line in shown.splitlines()


def test_parts_of_a_text_are_prose_and_blocks_in_turn() -> None:
    """A longer fence holds a shorter one."""
    text = "a\n````sh\n```\n````\nb\n"
    assert list(parts_of(text)) == ["a\n", Block("sh", "```\n"), "b\n"]
