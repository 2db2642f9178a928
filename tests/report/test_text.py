"""
The text of a report.

Aspects: width · what must never be cut or said · marks and colours · verbs that do not exist · order and sums.
"""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from fencectl.core.evidence import Evidence, Source
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.report import FenceReport, NoRelease
from fencectl.report.hints import hint_for
from fencectl.report.style import Style, cells, wrap
from fencectl.report.text import TextOptions, overview, render
from tests.report import story

SITUATIONS = ["dead", "unknown", "live", "incomplete", "nothing", "refused", "kept", "mixed"]
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_overview_fits_eighty_columns(situation: str) -> None:
    """So that it can be read on any terminal and pasted into any issue."""
    for line in overview(getattr(story, situation)(), verbs=story.LATER_VERBS):
        assert cells(line) <= 80, line


@pytest.mark.parametrize("situation", SITUATIONS)
def test_colours_change_nothing_but_colour(situation: str) -> None:
    """What a terminal shows is what a pipe gets."""
    report = getattr(story, situation)()
    style = Style(colour=True)
    coloured = render([report], options=TextOptions(verbs=story.VERBS, out=style, err=style))
    bare = render([report], options=TextOptions(verbs=story.VERBS))
    assert ANSI.sub("", coloured.stdout) == bare.stdout
    assert ANSI.sub("", coloured.stderr) == bare.stderr
    for line in coloured.stdout.splitlines():
        assert not line.startswith("kubectl") or "\x1b" not in line


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("verbs", [story.VERBS, frozenset({"fences"}), story.LATER_VERBS])
def test_text_names_only_verbs_that_exist(situation: str, verbs: frozenset[str]) -> None:
    """A hint that cannot be followed is worse than none."""
    rendered = render([getattr(story, situation)()], options=TextOptions(verbs=verbs))
    for verb in re.findall(r"\bfencectl ([a-z]+)\b", rendered.stdout + rendered.stderr):
        assert verb in verbs


def test_long_name_gets_its_own_line_and_is_whole() -> None:
    """An object's name is never cut: it is what is typed next."""
    name = "a-very-long-name-" + "x" * 60
    entry = replace(story.dead_entries()[0], object=story.node(name))
    lines = overview(story.report(story.block([entry])), verbs=story.VERBS)
    at = lines.index(f"  1  node/{name}")
    assert re.split("  +", lines[at + 1].strip()) == ["cordoned", "stays cordoned", "1h00m"]


def test_case_10_incomplete_report_never_sounds_like_no_fence() -> None:
    """Not even where nothing was found in what could be read."""
    empty = story.report(
        unreadable=(Unreadable("nodes", "no answer within 30s"),), counts=ReadCounts(), not_ours=()
    )
    rendered = render([empty], options=TextOptions(verbs=story.VERBS))
    assert rendered.stdout.startswith(
        "report INCOMPLETE on prod: nodes could not be read. 0 fences found elsewhere."
    )
    assert "no fence" not in (rendered.stdout + rendered.stderr).lower()
    assert "✓" not in rendered.stdout
    assert "kubectl --context prod get --raw /readyz" in rendered.stderr


def test_incomplete_report_names_three_parts_and_lists_all() -> None:
    """The sentence stays short, the evidence whole."""
    parts = tuple(Unreadable(f"kind{n}.toolkit.fluxcd.io", "forbidden: no") for n in range(5))
    shown = "\n".join(overview(story.report(unreadable=parts), verbs=story.VERBS))
    assert "kind2.toolkit.fluxcd.io and 2 more could not be read" in shown.replace("\n", " ")
    assert all(f"✗ kind{n}.toolkit.fluxcd.io\n             forbidden: no" in shown for n in range(5))


def test_many_not_ours_are_listed_when_nothing_is_held() -> None:
    """Three in the sentence, all in the table."""
    foreign = story.foreign()[0]
    many = tuple(replace(foreign, object=story.node(f"n-{n}")) for n in range(5))
    shown = "\n".join(overview(story.report(not_ours=many), verbs=story.VERBS))
    assert "5 are not ours: node/n-0" in shown
    assert "and 2 more" in shown
    assert all(f"  -  node/n-{n} " in shown for n in range(5))


def test_fresh_heartbeat_of_an_unknown_holder_says_when_to_ask_again() -> None:
    """No command, the reason once, and the next step."""
    why = "its heartbeat is younger than its duration; ask again when it has run out"
    entries = [story.refusing(one, NoRelease.FRESH, why, "none: fresh") for one in story.dead_entries()]
    report = story.report(story.block(entries, story.UNKNOWN), not_ours=())
    rendered = render([report], options=TextOptions(verbs=story.VERBS))
    assert " ".join(rendered.stdout.split()).count(why) == 1
    assert "kubectl" not in rendered.stdout
    assert rendered.stderr == (
        "hint: its heartbeat may still move: ask again with\n      `fencectl fences --context prod`\n"
    )


def test_manager_that_nobody_recorded_is_said() -> None:
    """managedFields may be absent."""
    foreign = replace(story.foreign()[0], manager=None)
    shown = " ".join(overview(story.report(not_ours=(foreign,)), verbs=story.VERBS))
    assert "node/worker-7 (cordoned by unknown)" in shown


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        (None, "api.github.com"),
        ("https://github.com/", "api.github.com"),
        ("https://ghe.example.com:8443", "ghe.example.com"),
        ("https://[", "GitHub"),
        ("x\x1b", "GitHub"),
    ],
)
def test_block_names_whom_it_asked(server: str | None, asked: str) -> None:
    """The host, where the journal names one that is one."""
    block = replace(story.dead().blocks[0], server_url=server)
    assert f"  asked      {asked} and the API server at 02:47:31Z" in "\n".join(
        overview(story.report(block), verbs=story.VERBS)
    )


def test_block_of_a_pod_and_of_a_process_name_whom_they_asked() -> None:
    """One line of evidence each, and nobody is asked twice."""
    facts = tuple(
        Evidence(source, "?", "x", story.NOW) for source in (Source.PROCESS, Source.POD, Source.HEARTBEAT)
    )
    block = replace(story.dead().blocks[0], judgement=replace(story.UNKNOWN, evidence=facts))
    assert "  asked      this machine and the API server at 02:47:31Z, clock skew 0.4s" in overview(
        story.report(block), verbs=story.VERBS
    )


def test_check_that_is_too_wide_stands_flush_left_and_whole() -> None:
    """A command is never broken."""
    check = f"{story.CHECK} --json status,conclusion"
    block = replace(story.dead().blocks[0], judgement=replace(story.UNKNOWN, check=check, evidence=()))
    lines = overview(story.report(block), verbs=story.VERBS)
    assert lines[lines.index("  check      by hand, with this:") + 1] == check
    assert not any(line.startswith("  asked") for line in lines)


def test_nothing_to_do_has_no_hint() -> None:
    """Silence is the answer where there is no next step."""
    assert hint_for([story.nothing()], verbs=story.LATER_VERBS) is None


def test_hint_carries_profile_and_kubeconfig() -> None:
    """The next command reads the same cluster with the same names."""
    report = story.report(story.block(story.dead_entries()), profile="ghcr-bridge", kubeconfig="/tmp/k c")
    hint = hint_for([report], verbs=story.VERBS)
    assert hint is not None
    assert "`fencectl fences --kubeconfig '/tmp/k c' --context prod --profile ghcr-bridge`" in hint


def test_hint_for_several_dead_holders_takes_them_all() -> None:
    """One next step for the screen."""
    other = story.block([replace(story.held_lease(6), order=6)], holder=story.ALIVE)
    hint = hint_for([story.report(story.block(story.dead_entries()), other)], verbs=story.LATER_VERBS)
    assert hint is not None
    assert hint.startswith("`fencectl recover --context prod --all` does all 6 in order")


def test_hint_for_one_dead_holder_of_two_names_it() -> None:
    """Beside a live run only the dead one is recovered."""
    moving = story.live().blocks[0]
    hint = hint_for([story.report(story.block(story.dead_entries()), moving)], verbs=story.LATER_VERBS)
    assert hint is not None
    assert hint.startswith("`fencectl recover --context prod --holder 18093344127.2` does 5 of 8 in order")


@pytest.mark.parametrize(
    ("number", "words"), [(0, "no fence is held on prod"), (1, "1 fence held on prod by 1 holder: dead (proven)")]
)
def test_sum_knows_its_numbers(number: int, words: str) -> None:
    """Never `fence(s)`."""
    report = story.report(story.block([story.held_lease(1)])) if number else story.report(not_ours=())
    assert overview(report, verbs=story.VERBS)[0].startswith(words)


def test_wrap_keeps_backticks_and_long_words_whole() -> None:
    """A command that a hint names can be copied from one line."""
    lines = wrap("run `a b c d` or\u0020https://example.com/very/long now", first="- ", rest="  ", width=14)
    assert lines == ["- run", "  `a b c d` or", "  https://example.com/very/long", "  now"]


def test_wide_characters_count_two_cells() -> None:
    """Columns stand below one another whatever the script."""
    assert (cells("漢字"), cells("e\u0301"), cells("abc")) == (4, 1, 3)


def report_of(count: int) -> FenceReport:
    entries = [replace(one, order=at) for at, one in enumerate(story.dead_entries() * (count // 5), 1)]
    return story.report(story.block(entries))


def test_every_fence_of_a_large_report_is_in_the_table() -> None:
    """What is cut from this table is a fence that nobody releases."""
    shown = overview(report_of(200), verbs=story.VERBS)
    assert len([line for line in shown if re.match(r" {0,2}\d+  ", line)]) == 200
    assert all(cells(line) <= 80 for line in shown)
