"""A cluster of which nothing could be read is told wherever the result is read without the log."""

from __future__ import annotations

import pytest

from fencectl.commands.fences import write_failure
from fencectl.commands.options import FencesOptions, Output
from fencectl.core.errors import NotReadableError
from fencectl.report.github import failed_annotation
from fencectl.report.markdown import failed_part
from tests.report import hostile

GONE = NotReadableError(
    "gone did not answer: https://127.0.0.1:1",
    reason='connection refused, 3 tries in 15s. This is not "no fence"',
    hint="kubectl --context gone get --raw /readyz",
)


def test_summary_has_a_part_for_the_cluster_that_did_not_answer() -> None:
    """Without it the summary would look like nothing is held there."""
    shown = failed_part(GONE)
    assert shown.startswith("\n#### report INCOMPLETE: `gone did not answer: ")
    assert "> [!CAUTION]\n> `connection refused, 3 tries in" in shown


def test_annotation_tells_it_as_an_error() -> None:
    """One line, whole, with the next step."""
    shown = failed_annotation(GONE)
    assert shown.startswith("::error title=report INCOMPLETE::gone did not answer: https://127.0.0.1:1%0A")
    assert shown.endswith("%0Akubectl --context gone get --raw /readyz\n")


def test_foreign_text_in_it_takes_no_effect() -> None:
    """A server's words are foreign."""
    for evil in hostile.TEXTS.values():
        failure = NotReadableError(f"gone did not answer: {evil}", reason=evil)
        annotation = failed_annotation(failure)
        assert annotation.count("\n") == 1
        assert "\x1b" not in annotation
        part = failed_part(failure)
        assert "\x1b" not in part
        assert part.count("\n") == 5


@pytest.mark.parametrize("output", list(Output))
def test_only_what_is_read_without_the_log_is_told_twice(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    """Data stays data: JSON has one document, whatever could not be read."""
    write_failure(GONE, FencesOptions(output=output))
    out, err = capsys.readouterr()
    assert bool(out) == (output in (Output.MARKDOWN, Output.GITHUB))
    assert err == ""
