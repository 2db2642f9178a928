"""Markdown, annotations and metrics, apart from their looks."""

from __future__ import annotations

import subprocess
import sys

from msgspec.structs import replace

from fencectl.core.evidence import Evidence, Source
from fencectl.report.github import as_annotations
from fencectl.report.markdown import as_markdown
from fencectl.report.openmetrics import as_openmetrics
from fencectl.report.words import run_url
from tests.report import story

LAZY = ("rich", "yaml", "jsonpatch", "jsonschema", "kubernetes", "unicodedata", "http.client")


def test_renderers_import_nothing_heavy() -> None:
    """Start-up is a promise: what one format needs is imported by that format, when it runs."""
    modules = "text", "machine", "markdown", "github", "openmetrics", "watch", "release", "explain"
    code = "import sys\n" + "".join(f"import fencectl.report.{name}\n" for name in modules)
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print([m for m in {LAZY!r} if m in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_markdown_too_long_for_a_step_summary_drops_its_commands_and_says_so() -> None:
    """GitHub drops a summary over its limit whole."""
    whole = as_markdown([story.dead()], verbs=story.VERBS)
    short = as_markdown([story.dead()], verbs=story.VERBS, limit_bytes=len(whole.encode()) - 1)
    assert "```" not in short
    assert "node/worker-3" in short
    assert short.endswith("since the report would be too long: see `fencectl fences`\n")
    assert as_markdown([story.dead()], verbs=story.VERBS, limit_bytes=len(whole.encode())) == whole


def test_markdown_links_a_run_only_where_every_part_of_the_address_is_one() -> None:
    """A repository that is no repository, or a server that is no server, makes no link."""
    block = story.dead().blocks[0]
    assert run_url(block) == "https://github.com/acme/platform/actions/runs/18093344127/attempts/2"
    assert run_url(replace(block, repository="acme/platform/../x")) is None
    assert run_url(replace(block, server_url="javascript:alert(1)")) is None
    assert run_url(replace(block, server_url="https://ghe.example.com:8443/")) == (
        "https://ghe.example.com:8443/acme/platform/actions/runs/18093344127/attempts/2"
    )


def test_annotation_longer_than_the_runner_takes_says_how_much_is_missing() -> None:
    """The runner cuts at 4,096 characters without a word."""
    entries = [
        replace(story.dead_entries()[0], object=story.node(f"worker-{n:04}"), order=n) for n in range(1, 600)
    ]
    line = as_annotations([story.report(story.block(entries), not_ours=())], verbs=story.VERBS)
    message = line.split("::")[-1].replace("%0A", "\n").replace("%25", "%")
    assert len(message) <= 4097
    assert "… (+" in message


def test_annotation_cuts_the_messages_of_others() -> None:
    """A long answer does not bury the fences."""
    fact = Evidence(Source.JOB, "has the job ended?", "x" * 512, story.NOW)
    judgement = replace(story.UNKNOWN, evidence=(fact,))
    line = as_annotations([story.report(story.block(story.dead_entries(), judgement))], verbs=story.VERBS)
    assert "x… (+312)%0Anode/worker-3" in line


def test_metrics_have_every_set_of_labels_once() -> None:
    """A second sample with the same labels makes a scraper refuse the whole page."""
    text = as_openmetrics([story.mixed(), story.mixed()])
    samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    assert 'fencectl_report_complete{context="prod"} 1' in text


def test_metrics_of_an_incomplete_report_say_so() -> None:
    """An alert on missing fences must be able to see that some may be hidden."""
    text = as_openmetrics([story.incomplete()])
    assert 'fencectl_report_complete{context="prod"} 0' in text
    assert text.endswith("# EOF\n")


def test_metrics_leave_out_ages_that_nobody_wrote_down() -> None:
    """An age of nothing would be an age of zero."""
    lines = [line for line in as_openmetrics([story.mixed()]).splitlines() if 'name="worker-5"' in line]
    assert [line.split("{")[0] for line in lines] == ["fencectl_fence_held"]
