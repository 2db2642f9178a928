"""The screens, to the byte: every situation of the story in every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fencectl.core.report import FenceReport
from fencectl.report.github import as_annotations
from fencectl.report.machine import releases_to_json, to_json, to_yaml
from fencectl.report.markdown import as_markdown
from fencectl.report.openmetrics import as_openmetrics
from fencectl.report.release import patch_files, release_script
from fencectl.report.shell import Shell
from fencectl.report.style import Style
from fencectl.report.text import TextOptions, render
from tests.report import story

Golden = Callable[[str, str], None]


def text_of(reports: Sequence[FenceReport], options: TextOptions) -> str:
    rendered = render(reports, options=options)
    return f"{rendered.stdout}--- stderr\n{rendered.stderr}"


def plain(verbs: frozenset[str] = story.VERBS) -> TextOptions:
    return TextOptions(verbs=verbs)


SITUATIONS = ["dead", "unknown", "live", "incomplete", "nothing", "refused", "kept", "mixed"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_situation_as_text_is_the_golden_screen(golden: Golden, situation: str) -> None:
    """Each situation reads as it was agreed on."""
    golden(f"{situation}.txt", text_of([getattr(story, situation)()], plain()))


@pytest.mark.parametrize("situation", ["dead", "incomplete", "refused", "kept"])
def test_situation_with_later_verbs_hints_at_them(golden: Golden, situation: str) -> None:
    """A hint appears by itself as soon as its verb exists."""
    golden(f"{situation}-later.txt", text_of([getattr(story, situation)()], plain(story.LATER_VERBS)))


def test_dead_chain_explained_is_the_golden_screen(golden: Golden) -> None:
    """--explain says above each command what it guards, changes and leaves."""
    golden("dead-explain.txt", text_of([story.dead()], TextOptions(verbs=story.VERBS, explain=True)))


def test_dead_chain_for_powershell_is_the_golden_screen(golden: Golden) -> None:
    """The commands are quoted for the shell that was asked for."""
    golden("dead-powershell.txt", text_of([story.dead()], TextOptions(verbs=story.VERBS, shell=Shell.POWERSHELL)))


def test_several_contexts_are_shown_in_the_order_asked_for(golden: Golden) -> None:
    """All overviews come first, then all commands, then the sums."""
    staging = story.report(context="staging", print_context="staging", not_ours=())
    golden("several.txt", text_of([staging, story.unknown(), story.incomplete()], plain()))


def test_no_commands_leaves_the_second_zone_out(golden: Golden) -> None:
    """--no-commands prints the overview and the hint."""
    golden("dead-no-commands.txt", text_of([story.dead()], TextOptions(verbs=story.VERBS, commands=False)))


def test_context_that_may_not_be_printed_is_replaced_by_server_and_uid(golden: Golden) -> None:
    """Without a name that holds elsewhere too, comments say where the commands go."""
    nameless = story.report(*story.dead().blocks, context=None, print_context=None, not_ours=())
    golden("no-context.txt", text_of([nameless], plain()))


def test_terminal_gets_colours_and_commands_none(golden: Golden) -> None:
    """Colour is for our own words; the kubectl lines are bare."""
    style = Style(colour=True)
    golden("mixed-colour.txt", text_of([story.mixed()], TextOptions(verbs=story.VERBS, out=style, err=style)))


def test_terminal_without_utf8_gets_ascii_marks(golden: Golden) -> None:
    """Nothing beyond ASCII is left but what a command holds."""
    style = Style(unicode=False)
    shown = text_of([story.refused(), story.incomplete()], TextOptions(verbs=story.VERBS, out=style, err=style))
    assert shown.isascii()
    golden("ascii.txt", shown)


@pytest.mark.parametrize("situation", ["dead", "mixed", "incomplete", "nothing"])
def test_situation_as_markdown_is_the_golden_page(golden: Golden, situation: str) -> None:
    """Sum and next step outside of details, evidence and commands inside."""
    golden(f"{situation}.md", as_markdown([getattr(story, situation)()], verbs=story.VERBS))


@pytest.mark.parametrize("situation", ["dead", "mixed", "incomplete", "nothing"])
def test_situation_as_annotations_is_the_golden_log(golden: Golden, situation: str) -> None:
    """One annotation per holder."""
    golden(f"{situation}.github.txt", as_annotations([getattr(story, situation)()], verbs=story.LATER_VERBS))


def test_mixed_situation_as_openmetrics_is_the_golden_exposition(golden: Golden) -> None:
    """Every fence is a series, and the exposition has its end mark."""
    golden("mixed.openmetrics.txt", as_openmetrics([story.mixed(), story.incomplete()]))


def test_mixed_situation_as_json_and_yaml_is_the_golden_document(golden: Golden) -> None:
    """The order of the keys is part of what others see."""
    golden("mixed.json", to_json([story.mixed()]))
    golden("mixed.yaml", to_yaml([story.mixed()]))


def test_release_objects_are_the_golden_list(golden: Golden) -> None:
    """`release -o json` is the list of the release objects."""
    golden("releases.json", releases_to_json(story.dead(), story.dead().held))


@pytest.mark.parametrize("situation", ["dead", "refused", "kept", "unknown"])
@pytest.mark.parametrize("shell", list(Shell))
def test_script_is_the_golden_script(golden: Golden, situation: str, shell: Shell) -> None:
    """A script stops at the first refusal and holds nothing after it."""
    report = getattr(story, situation)()
    script = release_script(report, report.blocks[0], shell=shell, explain=situation == "unknown")
    golden(f"{situation}-release.{'sh' if shell is Shell.POSIX else 'ps1'}", script)


def test_patch_files_are_named_in_release_order(golden: Golden) -> None:
    """The names sort as the releases go."""
    files = patch_files(story.dead().held)
    assert list(files) == sorted(files)
    golden("patch-files.txt", "".join(f"{name}\n{text}" for name, text in files.items()))
