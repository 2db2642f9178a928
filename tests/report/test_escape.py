"""What is spelled out and what stays: characters, cuts, log lines, Markdown and HTML."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from fencectl.report import escape
from fencectl.report.commands import printable


def test_every_control_format_private_and_separator_character_is_spelled_out() -> None:
    """Checked against Unicode's own categories, so that no range was forgotten."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} or (char.isspace() and char != " "):
            assert not escape.is_visible(char), hex(code)


@pytest.mark.parametrize("text", ["Ünïcödé", "漢字", "кириллица", "a-b_c/d.e", "naïve ✓ → …", "\U0001f600"])
def test_plainly_visible_text_stays_as_it_is(text: str) -> None:
    """Not everything beyond ASCII is hostile."""
    assert escape.visible(text) == text


def test_controls_have_the_spelling_that_people_know() -> None:
    """`\\n` and `\\x1b`, `\\u202e`, and eight digits beyond the basic plane."""
    assert escape.visible("a\n\r\t\x1b[1m\x9b\u202e\U000e0041") == r"a\n\r\t\x1b[1m\x9b\u202e\U000e0041"


def test_workflow_command_of_the_older_spelling_is_broken_anywhere_in_a_line() -> None:
    """A runner looks for `##[` in the whole line."""
    assert escape.visible("x ##[error]y") == r"x ##\x5berror]y"
    assert printable('["x ##[error]y"]') == r'["x ##\u005berror]y"]'
    assert json.loads(printable('["x ##[error]y"]')) == ["x ##[error]y"]


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("::error::x", "| ::error::x"),
        ("   ::error::x", "   | ::error::x"),
        ("\x1b[1m::error::x", "\x1b[1m| ::error::x"),
        ("12:00:00Z ::error::x", "12:00:00Z ::error::x"),
        ("", ""),
    ],
)
def test_line_that_begins_as_a_workflow_command_gets_a_bar(line: str, safe: str) -> None:
    """So that foreign text never begins a line of a log."""
    assert escape.log_safe(line) == safe


def test_message_of_others_is_cut_and_says_by_how_much() -> None:
    """200 characters, then the number of those that are missing."""
    assert escape.cut("x" * 200) == "x" * 200
    assert escape.cut("x" * 512) == "x" * 200 + "… (+312)"


def test_workflow_escapes_take_the_percent_sign_first() -> None:
    """Otherwise an escape would be escaped, and `%0A` in a text would become a line feed."""
    assert escape.workflow_data("50%\r\n%0A") == "50%25%0D%0A%250A"
    assert escape.workflow_property("a: b, c") == "a%3A b%2C c"


def test_text_for_a_poor_terminal_is_ascii() -> None:
    """Our own marks have their ASCII spelling, the rest is spelled out."""
    assert escape.ascii_only("✓ a → b · c… é \U0001f600") == r"ok a -> b , c.. \xe9 \U0001f600"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("completed (cancelled) at 01:47:09Z, hosted", "completed (cancelled) at 01:47:09Z, hosted"),
        ("phase `mutating` since noon", "phase `mutating` since noon"),
        ("in_progress", "in_progress"),
        ("see :tada:", "`see :tada:`"),
        ("http://x", "`http://x`"),
        ("www.x.y", "`www.x.y`"),
        ("main@sha1", "`main@sha1`"),
        ("at 4f2a91c07be3d855", "`at 4f2a91c07be3d855`"),
        ("`", "`` ` ``"),
        ("a ``b`` c", "```a ``b`` c```"),
        ("*x*", "`*x*`"),
        ("", ""),
    ],
)
def test_markdown_shows_prose_as_it_is_and_everything_else_as_code(text: str, shown: str) -> None:
    """What GitHub might turn into a link, a mention or an emoji stands in a code span."""
    assert escape.inline(text) == shown


def test_blank_code_span_says_so() -> None:
    """An empty span would be no span."""
    assert (escape.code_span(""), escape.code_span("  ")) == ("(empty)", "(blank)")


@given(text=st.text(max_size=60))
def test_code_span_holds_any_text(text: str) -> None:
    """An independent reader finds one code span with the visible text in it."""
    shown = escape.visible(text)
    tokens = MarkdownIt("commonmark").parse(f"x {escape.code_span(text)} y")[1].children or []
    codes = [token.content for token in tokens if token.type == "code_inline"]
    assert codes == ([shown] if shown.strip() else [])


@given(text=st.text(max_size=60))
def test_inline_text_is_never_markup(text: str) -> None:
    """Whatever the text, only text and code come out."""
    tokens = MarkdownIt("commonmark").parse(f"x {escape.inline(text)} y")[1].children or []
    assert {token.type for token in tokens} <= {"text", "code_inline"}


def test_html_text_is_escaped_inside_of_code() -> None:
    """Mentions are not looked for in `<code>`."""
    assert escape.html_inline("<b>@x") == "<code>&lt;b&gt;@x</code>"
    assert escape.html_inline("plain") == "plain"


def test_code_fence_is_longer_than_any_run_of_backticks() -> None:
    """So that nothing in the block ends it."""
    assert escape.fence_for("a") == "```"
    assert escape.fence_for("a ````` b") == "``````"
