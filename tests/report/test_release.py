"""Scripts that a real shell runs: they stop at the first refusal and say what is still held."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from fencectl.core.patches import seal
from fencectl.core.report import FenceReport, Release
from fencectl.report.commands import as_kubectl, where_of
from fencectl.report.release import (
    nothing_released,
    patch_file_command,
    patch_files,
    releasable_now,
    release_script,
)
from fencectl.report.shell import Shell, say
from tests.report import story
from tests.report.unquote import powershell_words


def run(script: str, tmp_path: Path, *, fail_at: int = 0) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a script with a kubectl that fails at its nth call; the number of calls that it got."""
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho x >>"$OUT"\ntest "$(wc -l <"$OUT")" -ne {fail_at}\n')
    program.chmod(0o755)
    out = tmp_path / "out"
    out.write_text("")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(out)}
    done = subprocess.run(
        ["sh"], input=script, text=True, env=environment, capture_output=True, check=False, timeout=20
    )
    return done, len(out.read_text().splitlines())


def script_of(report: FenceReport) -> str:
    return release_script(report, report.blocks[0])


def test_script_runs_every_command_and_says_so(tmp_path: Path) -> None:
    """In order, each named first, the sum at the end; stdout is kubectl's alone."""
    done, calls = run(script_of(story.dead()), tmp_path)
    assert (done.returncode, calls, done.stdout) == (0, 5, "")
    assert (
        done.stderr.splitlines()[0] == "1/5 node/worker-3: drop the mark; it was cordoned before, so it stays so"
    )
    assert done.stderr.splitlines()[-1] == "released 5 of 5; check: fencectl fences --context prod"


def test_script_stops_at_the_first_refusal(tmp_path: Path) -> None:
    """The second patch is refused: the third is not tried, and it is said what that means."""
    done, calls = run(script_of(story.dead()), tmp_path, fail_at=2)
    assert done.returncode == 1
    assert calls == 2
    assert done.stderr.splitlines()[-1] == "stopped: this fence and all after it are held"


def test_script_behind_a_refused_node_has_no_command_and_exits_19(tmp_path: Path) -> None:
    """Nothing is printed after a refusal, so nothing can be run past it."""
    script = script_of(story.refused())
    done, calls = run(script, tmp_path)
    assert (done.returncode, calls) == (19, 0)
    assert "kubectl " not in script
    assert "# 5/5 lease/flux-system/fencectl-deploy is still held" in script


def test_script_leaves_kept_fences_out_with_the_reason(tmp_path: Path) -> None:
    """Only a person resumes what was kept on purpose."""
    script = script_of(story.kept())
    done, calls = run(script, tmp_path)
    assert (done.returncode, calls) == (0, 0)
    assert script.count("# KEPT: Flux would apply main@sha1:9be1c044 again") == 2
    assert done.stderr == "released 0 of 2, 2 KEPT on purpose; check: fencectl fences --context prod\n"
    assert releasable_now(story.kept().blocks[0]) == ()


def test_script_of_an_unproven_holder_says_what_to_prove() -> None:
    """The check stands in the script itself, since it may be read on its own."""
    lines = script_of(story.unknown()).splitlines()
    assert f"# check: {story.CHECK}" in lines
    assert "# NOT PROVEN DEAD: run these only if the check above says `completed`" in lines


def test_script_for_named_fences_holds_only_these() -> None:
    """`release node/worker-3` prints that one."""
    report = story.dead()
    script = release_script(report, report.blocks[0], entries=report.blocks[0].entries[:1])
    assert script.count("\nkubectl ") == 1
    assert "released 1 of 1" in script


def test_script_stops_where_no_line_would_run_as_the_patch(tmp_path: Path) -> None:
    """A fence without a printable command is a refusal like any other."""
    first, *rest = story.dead_entries()
    odd = replace(first, object=story.node("-A"), release=Release(seal(story.node("-A"), []), "uncordon"))
    report = story.report(story.block([odd, *rest]))
    done, calls = run(script_of(report), tmp_path)
    assert (done.returncode, calls) == (19, 0)


def test_commands_of_the_script_are_those_of_the_report() -> None:
    """The very lines, byte for byte."""
    report = story.dead()
    commands = [line for line in script_of(report).splitlines() if line.startswith("kubectl ")]
    assert commands == [
        as_kubectl(entry.release.patch, where_of(report)) for entry in report.held if entry.release is not None
    ]


def test_powershell_script_checks_the_exit_code_of_each_command() -> None:
    """PowerShell goes on after a failed program unless told otherwise."""
    report = story.dead()
    lines = release_script(report, report.blocks[0], shell=Shell.POWERSHELL).splitlines()
    assert lines[0] == "#Requires -Version 7.3"
    for at, line in enumerate(lines):
        if line.startswith("kubectl "):
            assert powershell_words(line)[0] == "kubectl"
            assert lines[at + 1].startswith("if ($LASTEXITCODE -ne 0) {")


@pytest.mark.parametrize("text", ["a\\nb", "o'brien", "$(touch pwned)", "-n", "\\033[1m"])
def test_say_says_exactly_the_text(tmp_path: Path, text: str) -> None:
    """Shells differ in what echo makes of backslashes."""
    for shell in ("sh", "bash"):
        done = subprocess.run(
            [shell, "-c", say(f"x {text}")], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stderr == f"x {text}\n"
    assert powershell_words(say(f"x {text}", shell=Shell.POWERSHELL)[len("[Console]::Error.WriteLine(") : -1]) == [
        f"x {text}"
    ]


def test_patch_file_holds_the_patch_and_its_command_names_it() -> None:
    """For shells that no command is printed for."""
    report = story.dead()
    entry = report.held[4]
    assert entry.release is not None
    assert patch_files(report.held)["05-lease-flux-system-fencectl-deploy.json"] == entry.release.patch.body + "\n"
    assert patch_file_command(report, entry, "my patches/05.json").endswith(
        "--type=json --field-manager=fencectl --patch-file 'my patches/05.json'"
    )
    with pytest.raises(ValueError, match="without a release"):
        patch_file_command(report, report.not_ours[0], "x")


def test_release_says_that_nothing_was_released() -> None:
    """Its name promises more than it does."""
    assert nothing_released(story.dead(), 5) == (
        "nothing was released: 5 commands for prod written, read at 02:47:31Z"
    )
