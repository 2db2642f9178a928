"""What the README shows is what is printed, of the invented story, to the byte."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fencectl.commands.options import Color, Output
from fencectl.commands.recover_show import Show
from fencectl.core.verbs import VERBS
from fencectl.report.text import TextOptions, render
from tests.report import story
from tests.report.recovering import done, plan_of, steps_of, watched

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def shown(command: str) -> str:
    """What the README shows below that command, or below nothing."""
    blocks = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if block.startswith(f"$ {command}\n")]
    return str(block.partition("\n")[2])


def test_report_in_the_readme_is_printed() -> None:
    """The overview, and the hint below it."""
    printed = render([story.dead()], options=TextOptions(verbs=VERBS, commands=False))
    assert shown("fencectl fences --context prod --no-commands") == printed.stdout + printed.stderr


def test_release_command_in_the_readme_is_printed() -> None:
    """Whole, as it would be pasted: with its comment above it."""
    printed = render([story.dead()], options=TextOptions(verbs=VERBS)).stdout
    command = shown("fencectl fences --context prod")
    assert command.startswith("\u2026\n# 2/5 node/worker-2: ")
    assert command.endswith("\n\u2026\n")
    assert command[2:-2] in printed


def test_recovery_in_the_readme_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the watch to the last sentence, at a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    before, after = story.dead(), watched(story.dead())
    plan = plan_of(after.blocks[0])
    show = Show(Output.TEXT, Color.NEVER, attended=True)
    show.plan(before)
    capsys.readouterr()
    printed = []

    def take() -> None:
        out, err = capsys.readouterr()
        printed.append(out + err)

    show.watching(40.0)
    take()
    show.watched(after, [plan], 40.0)
    take()
    show.question(after, plan.total)
    take()
    printed.append("yes\n")
    show.begins(plan)
    for step in steps_of(plan):
        show.told(step)
    show.end(after, [(plan, done(plan))], [0.84])
    take()
    assert shown("fencectl recover --context prod") == "\u2026\n" + "".join(printed)


def test_steps_in_the_readme_are_those_of_the_demo() -> None:
    """In the words that it uses itself."""
    told = " ".join(README.split("It tells in five steps")[1].split(".\n")[0].split())
    said = (ROOT / "fencectl/commands/demo_story.py").read_text()
    steps = [sentence.split(":")[0].split(",")[0] for sentence in re.findall(r"\.step\(\s*f?\"(.*?)\"", said)]
    # The other fourth step is that of a machine without kubectl.
    assert [step for step in steps if step.rstrip("?") not in told] == ["the printed patches release it"]
    assert len(steps) == 6
