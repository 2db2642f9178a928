"""
The runbooks as they stand in the tree: one for each exit code and each refusal, short, of one shape, shipped.

That their commands do what they say is shown in `tests/e2e/test_runbooks.py`, where each of them is run.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from fencectl.core.errors import WORST_FIRST, ExitCode
from fencectl.core.report import NoRelease
from fencectl.core.runbooks import NOBODY_NEEDED, PLACEHOLDERS, RUNBOOKS, Situation, runbook_for
from fencectl.core.verbs import VERBS
from fencectl.report.runbook import Block, parts_of

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path.read_text() for path in sorted((ROOT / "runbooks").glob("*.md"))}
STEPS = [name for name in FILES if name != "exit-codes"]
HEADINGS = ["How you recognise it", "Is it safe?", "Do this", "How you know that it worked"]
NAMES = {book.name for book in RUNBOOKS}


def test_list_has_room_for_every_name_and_sign() -> None:
    """80 columns, with the number that matches behind them."""
    assert [book.name for book in RUNBOOKS if len(book.name) > 16 or len(book.sign) > 39] == []


def test_every_runbook_has_its_text_and_every_text_its_place_in_the_list() -> None:
    """What the list names can be printed, and nothing lies beside it."""
    assert set(FILES) == NAMES
    assert len(NAMES) == len(RUNBOOKS)


@pytest.mark.parametrize("code", sorted(set(ExitCode) - NOBODY_NEEDED), ids=lambda code: str(int(code)))
def test_exit_code_that_needs_a_person_has_exactly_one_runbook(code: ExitCode) -> None:
    """Whoever is woken by a number finds one page, not two."""
    books = [book.name for book in RUNBOOKS if code in book.codes]
    assert len(books) == 1


@pytest.mark.parametrize("situation", Situation)
def test_refusal_has_exactly_one_runbook(situation: Situation) -> None:
    """What fencectl leaves to a person it explains to a person."""
    books = [book.name for book in RUNBOOKS if situation in book.situations]
    assert len(books) == 1


def test_codes_that_need_nobody_have_no_runbook() -> None:
    """Each code is in one of the two lists."""
    assert [code for code in NOBODY_NEEDED if runbook_for(code) is not None] == []


def test_every_reason_without_a_release_is_a_refusal_with_a_runbook() -> None:
    """The reports' own closed set of reasons, none of it forgotten: a new one fails here and in the type check."""
    from tests.core.test_runbooks import EXAMPLES

    assert {kind for kind, _ in EXAMPLES} == set(NoRelease)


def test_exit_codes_are_those_of_the_program() -> None:
    """Every code with its meaning, word for word, and the runbook for it."""
    text = FILES["exit-codes"]
    said = re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE)
    lines = []
    for code in ExitCode:
        book = runbook_for(code)
        lines.append(f"**{code.value}**{f' `{book.name}`' if book else ''}: {code.meaning}")
    assert [re.sub(r"\n +", " ", one) for one in said] == lines
    order = text.split("in this order:")[1].rstrip(".\n")
    assert [int(number) for number in order.split(",")] == [int(code) for code in WORST_FIRST]


@pytest.mark.parametrize("name", STEPS)
def test_runbook_is_short_and_has_the_four_parts_that_a_tired_person_looks_for(name: str) -> None:
    """Recognise, safe, do, worked: in this order, on two screens, within 80 columns but for commands."""
    text = FILES[name]
    assert text.startswith("# ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert len(text.splitlines()) <= 75
    prose = [line for part in parts_of(text) if isinstance(part, str) for line in part.splitlines()]
    assert [line for line in prose if len(line) > 80] == []
    assert text.isascii()
    worked = text.split(f"## {HEADINGS[3]}\n")[1]
    assert any(isinstance(part, Block) for part in parts_of(worked)), "it says how to see that it worked"


@pytest.mark.parametrize("name", FILES)
def test_runbook_names_only_verbs_runbooks_and_placeholders_that_exist(name: str) -> None:
    """A page that sends one to a page that is not there is worse than none."""
    text = FILES[name]
    code = re.findall(r"```.*?```|`[^`]*`", text, re.DOTALL)
    assert set(re.findall(r"\bfencectl ([a-z]\w*)", " ".join(code))) <= VERBS
    assert set(re.findall(r"fencectl runbook ([a-z][a-z-]+)", text)) <= NAMES
    # What stands alone in backticks and looks like the name of a runbook is one.
    alone = re.findall(r"(?<!`)`([a-z]+(?:-[a-z]+)+)`", text)
    assert set(alone) - {"self-hosted"} <= NAMES
    for block in (part for part in parts_of(text) if isinstance(part, Block)):
        assert block.language == "sh"
        assert set(re.findall(r"\{([a-z-]+)\}", block.text)) <= set(PLACEHOLDERS)
        for line in block.text.splitlines():
            assert line.startswith(("fencectl ", "kubectl ", "sh release.sh"))
            if line.startswith("kubectl") or (line.startswith("fencectl") and "--version" not in line):
                assert " --context {context}" in line, "on the cluster that it is about, or on another one"
    spans = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert re.findall(r"\{[a-z-]+\}", spans) == [], "a placeholder in prose could not be escaped"


def test_runbooks_are_in_the_package(tmp_path: Path) -> None:
    """`runbook` prints them where nothing but the package is installed."""
    from hatchling.builders.wheel import WheelBuilder

    [made] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(made) as wheel:
        shipped = {name for name in wheel.namelist() if name.startswith("fencectl/runbooks/")}
    assert shipped == {f"fencectl/runbooks/{name}.md" for name in FILES}
