"""
`fencectl runbook`: the list and a page, with a cluster, without one, and with one that is away. It only reads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fencectl.sandbox import Sandbox
from tests.e2e.conftest import Fencectl
from tests.support.clusters import Cluster
from tests.support.fencing import killed_chain
from tests.support.github import LoopbackGitHub
from tests.support.program import environment, run_program
from tests.support.terminal import spoken


def test_list_counts_what_matches_and_the_page_names_it(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """On both clusters, with a run on GitHub that nobody was asked about."""
    killed_chain(clean_cluster, duration_s=1)
    listed = fencectl("runbook", "--context", "prod")
    assert listed.code == 0, listed.text
    assert "unknown-holder    nobody can say whether the holder lives  5 fences match now\n" in listed.stdout
    assert "dead-holder       a deploy was refused with exit 16\n" in listed.stdout
    assert "hint: `fencectl runbook unknown-holder --context prod` fills in" in listed.stderr
    page = fencectl("runbook", "unknown-holder", "--context", "prod")
    assert page.code == 0, page.text
    holder = "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"
    assert f"fencectl release --context prod --holder {holder} >release.sh\n" in page.stdout
    assert page.stderr == ""


def test_it_sends_nothing_but_reads(sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """It stands under Look."""
    killed_chain(sandbox_cluster, duration_s=1)
    sandbox.requests.clear()
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    for words in ([], ["still-fenced"], ["node-mutating", "-o", "json"], ["-o", "markdown"]):
        assert run_program("runbook", *words, kubeconfig=kubeconfig, cwd=tmp_path).code == 0
    assert {entry.method for entry in sandbox.requests.all()} == {"GET"}


def test_without_a_cluster_the_text_is_printed_as_it_stands(tmp_path: Path) -> None:
    """On a laptop that was never set up for it."""
    nowhere = tmp_path / "none"
    done = run_program("runbook", "still-fenced", kubeconfig=nowhere, cwd=tmp_path)
    assert done.code == 0, done.text
    assert "fencectl recover --context {context}\n" in done.stdout
    assert "> No cluster was read: " in done.stdout
    listed = run_program("runbook", kubeconfig=nowhere, cwd=tmp_path)
    assert listed.code == 0, listed.text
    assert " now" not in listed.stdout
    assert "! no cluster was read, so nothing is counted: " in listed.stderr


def test_cluster_that_is_away_does_not_keep_the_page_back(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """That is when it is needed most; the context is known all the same."""
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    sandbox.stop()
    line = ("runbook", "incomplete", "--context", "prod", "--request-timeout", "1s")
    done = run_program(*line, kubeconfig=kubeconfig, cwd=tmp_path)
    assert done.code == 0, done.text
    assert "kubectl --context prod get --raw '/readyz?verbose'\n" in done.stdout
    assert "> prod was not read: " in done.stdout


def test_what_could_not_be_read_is_said_and_its_runbook_matches(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """A list of what matches that left a fence out in silence would be believed."""
    done = fencectl("runbook", user="viewer")
    assert done.code == 0, done.text
    assert "! prod was not read whole, a match may be missing:" in done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("incomplete ")]
    assert " of it now" in line


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["still-fence"], "hint: did you mean `still-fenced`?"),
        (["../README"], "error: no runbook `../README`"),
        (["still-fenced", "--context", "prd"], "error: no context `prd`"),
        (["still-fenced", "hold"], "error: "),
        ([""], "error: "),
    ],
)
def test_wrong_line_is_an_error_and_nothing_is_printed(
    words: list[str], sentence: str, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """2, what is wrong and what there is; what was named is never guessed at."""
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    done = run_program("runbook", *words, kubeconfig=kubeconfig, cwd=tmp_path)
    assert (done.code, done.stdout) == (2, ""), done.text
    assert sentence in done.stderr


def test_at_a_terminal_it_is_rendered_and_the_commands_are_not(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """No `#`, no backticks; each command on one line although the terminal is narrower."""
    with LoopbackGitHub() as github:
        github.attempt(18093344127, 2, status="in_progress")
        github.job(18093344127, 2, 51234567890)
        killed_chain(sandbox_cluster, duration_s=1)
        env = environment(sandbox_cluster.kubeconfig_file(context="prod"), **github.env()) | {"TERM": "xterm"}
        line = ["runbook", "presumed-holder", "--no-color"]
        with spoken(line, env=env, cwd=tmp_path, terminal=True) as program:
            assert program.to_the_end() == 0
    lines = program.said.replace("\r", "").splitlines()
    assert lines[0] == "Presumed dead: everything says so, and one proof is missing"
    assert "fencectl recover --context prod --accept-presumed --holder {holder}" in lines
    assert "Is it safe?" in lines
    assert max(len(line) for line in lines if not line.startswith("fencectl")) <= 80
