"""
`hold`: placed with a reason, shown by `fences`, respected by `recover`, lifted by name and never overwritten.

Both clusters, the program as a process; at a terminal of its own where a person is asked.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencectl.core.times import parse_time
from fencectl.sandbox.faults import Gate
from tests.e2e.conftest import Fencectl
from tests.support.clusters import Cluster, ensure_namespace, grant, make_configmap
from tests.support.fencing import essence, killed_chain, state
from tests.support.github import LoopbackGitHub
from tests.support.program import environment, run_program
from tests.support.terminal import Spoken

RECORD = "/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record"
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "18093344127",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_ACTOR": "ann",
    "GITHUB_REPOSITORY": "acme/platform",
}
# What a terminal, a shell, Markdown, a log of Actions and a table would each act on.
HOSTILE = "x\x1b[2J\n::error::owned\r##[group]\u202e `$(id)` |<b>| [l](http://x) é"
REASON = ("--reason", "INC-2291 checkout")


@pytest.fixture
def ready(clean_cluster: Cluster) -> Cluster:
    """The namespace of the lease is there, and nothing in it."""
    ensure_namespace(clean_cluster, "flux-system")
    return clean_cluster


def data(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = cluster.get(RECORD).get("data", {})
    return found


def put(cluster: Cluster, **entries: str) -> None:
    make_configmap(
        cluster,
        "fencectl-deploy-record",
        namespace="flux-system",
        data={key.replace("_", "-"): text for key, text in entries.items()},
    )


def hold_text(**changes: Any) -> str:
    return json.dumps(
        {"v": 1, "type": "incident", "reason": "INC-1", "by": "eve@x", "at": "2026-11-30T02:00:00Z"} | changes
    )


def test_hold_is_placed_listed_shown_and_lifted(ready: Cluster, fencectl: Fencectl) -> None:
    """The whole life of one, beside a foreign key that survives it."""
    placed = fencectl("hold", "place", "incident", *REASON, "--until", "3h", "--context", "prod")
    assert placed.code == 0, placed.text
    assert placed.stdout == ""
    said = " ".join(placed.stderr.split())
    assert said.startswith("✓ hold `incident` on prod: no deploy starts. At ")
    assert (
        "(in 2h59m) it is overdue, but stays until it is lifted: `fencectl hold lift incident --context prod`"
        in (said.replace("(in 3h00m)", "(in 2h59m)"))
    )
    ready.merge_patch(RECORD, {"data": {"foreign": "stays"}}, manager="other")
    listed = fencectl("hold", "list")
    assert (listed.code, listed.stderr) == (0, "")
    assert "1 hold on prod: no deploy starts" in listed.stdout
    assert "reason: INC-2291 checkout" in listed.stdout
    (hold,) = fencectl("hold", "list", "-o", "json").json["holds"]
    assert (hold["type"], hold["reason"], hold["overdue"]) == ("incident", "INC-2291 checkout", False)
    assert hold["by"].endswith(f"@{os.uname().nodename}")
    until, at = parse_time(hold["until"]), parse_time(hold["at"])
    assert until is not None
    assert at is not None
    assert (until - at).total_seconds() == 3 * 3600
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 20
    assert "hold incident" in shown.stdout
    assert "reason: INC-2291 checkout" in shown.stdout
    assert "`fencectl hold lift incident --context prod` lifts it" in " ".join(shown.stderr.split())
    lifted = fencectl("hold", "lift", "incident", "--yes", "--reason", "it is over")
    assert (lifted.code, lifted.stdout) == (0, ""), lifted.text
    assert lifted.stderr == "✓ hold `incident` is lifted on prod: deploys can start again\n"
    assert set(data(ready)) == {"foreign", "lifted-incident"}
    after = fencectl("hold", "list")
    assert after.stdout.startswith("no hold is on prod (configmap/flux-system/fencectl-deploy-record)\n")
    assert ": it is over" in after.stdout
    assert fencectl("fences", "--exit-code").code == 0


def test_hold_that_is_there_is_not_overwritten(ready: Cluster, fencectl: Fencectl) -> None:
    """Who, why and since when; another type goes beside it."""
    assert fencectl("hold", "place", "incident", *REASON, env=GITHUB).code == 0
    before = data(ready)
    again = fencectl("hold", "place", "incident", "--reason", "another", "--until", "3h")
    assert again.code == 19
    assert "error: hold `incident` is on prod already: for " in again.stderr
    assert "by ann, run 18093344127 attempt 2, acme/platform" in again.stderr
    assert "reason: INC-2291 checkout" in again.stderr
    assert "fencectl hold lift incident --context prod" in again.stderr
    assert data(ready) == before
    beside = fencectl("hold", "place", "freeze", "--reason", "year end", "-o", "json")
    assert beside.json["hold"]["type"] == "freeze"
    left = fencectl("hold", "lift", "incident", "--yes", "--reason", "over")
    assert left.stderr == "✓ hold `incident` is lifted on prod; stays held: `freeze`\n"


def test_wrong_type_is_refused_with_what_is_held(ready: Cluster, fencectl: Fencectl) -> None:
    """A hold goes by its own name only."""
    nothing = fencectl("hold", "lift", "freeze", "--yes", "--reason", "x")
    assert (nothing.code, nothing.stderr.splitlines()[0]) == (2, "error: no hold is on prod")
    fencectl("hold", "place", "incident", *REASON)
    wrong = fencectl("hold", "lift", "freeze", "--yes", "--reason", "x")
    assert wrong.code == 2
    assert wrong.stderr.startswith("error: no hold `freeze` on prod; held: `incident` (INC-2291 checkout, ")
    assert set(data(ready)) == {"hold-incident"}


def test_end_that_has_passed_only_warns(ready: Cluster, fencectl: Fencectl) -> None:
    """Overdue is said everywhere, and it stays until it is lifted."""
    put(ready, hold_freeze=hold_text(type="freeze", until="2026-11-30T02:30:00Z"))
    listed = fencectl("hold", "list")
    assert "! overdue for " in listed.stdout
    assert fencectl("hold", "list", "-o", "json").json["holds"][0]["overdue"] is True
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 20
    assert "! overdue for " in shown.stdout
    again = fencectl("hold", "place", "freeze", "--reason", "x")
    assert again.code == 19
    past = fencectl("hold", "place", "incident", "--reason", "x", "--until", "2026-01-01T00:00:00Z")
    assert past.code == 2
    assert "has passed" in past.stderr


def test_two_writers_at_once_place_one_hold(ready: Cluster, fencectl: Fencectl) -> None:
    """Same user, same reason, same second: still one of them placed it, and knows."""
    ready.kubeconfig_file(context="prod")  # written once, before threads look for it
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda _: fencectl("hold", "place", "incident", *REASON), range(4)))
    assert sorted(one.code for one in ran) == [0, 19, 19, 19], [one.text for one in ran]
    assert set(data(ready)) == {"hold-incident"}


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_lost_answer_of_a_placing_is_no_failure(sandbox_cluster: Cluster, tmp_path: Path, verb: str) -> None:
    """The hold is there, and it is this one."""
    ensure_namespace(sandbox_cluster, "flux-system")
    if verb == "patch":
        put(sandbox_cluster)
    fault = sandbox_cluster.sandbox.faults.drop_after(verb=verb, resource="configmaps", times=1)
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    placed = run_program("hold", "place", "incident", *REASON, "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path)
    assert (placed.code, fault.hits) == (0, 1), placed.text
    assert placed.json["hold"]["reason"] == "INC-2291 checkout"
    sandbox_cluster.sandbox.faults.drop_after(verb="patch", resource="configmaps", times=1)
    lifted = run_program(
        "hold", "lift", "incident", "--yes", "--reason", "over", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path
    )
    assert lifted.code == 0, lifted.text
    assert lifted.json["lifted"]["byOther"] is False
    assert set(data(sandbox_cluster)) == {"lifted-incident"}


def test_placing_without_an_answer_that_was_lifted_since_is_not_repeated(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """What a person has lifted stays lifted, whatever arrives late."""
    ensure_namespace(sandbox_cluster, "flux-system")
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    faults = sandbox_cluster.sandbox.faults
    faults.drop_after(verb="create", resource="configmaps", times=1)

    def lift() -> None:
        kept = json.dumps({"v": 1, "reason": "no need", "by": "bob@desk", "id": "1"})
        sandbox_cluster.merge_patch(
            RECORD, {"data": {"hold-incident": None, "lifted-incident": kept}}, manager="b"
        )

    # NB: the second read, right after the lost answer, is held until the hold has been lifted.
    fault = faults.delay(gate=Gate(), verb="get", resource="configmaps", after=1, times=1)
    with ThreadPoolExecutor(1) as pool:
        placing = pool.submit(
            run_program, "hold", "place", "incident", *REASON, kubeconfig=kubeconfig, cwd=tmp_path
        )
        assert fault.arrived.wait(60)
        lift()
        fault.release()
        placed = placing.result(60)
    assert placed.code == 19, placed.text
    assert "lifted since by bob@desk" in placed.stderr
    assert "reason: no need" in placed.stderr
    assert set(data(sandbox_cluster)) == {"lifted-incident"}


def test_hold_of_a_newer_fencectl_is_shown_and_not_lifted(ready: Cluster, fencectl: Fencectl) -> None:
    """What it means cannot be known here; a broken one can be lifted by its text."""
    put(ready, hold_incident=hold_text(v=2), hold_freeze="{broken")
    refused = fencectl("hold", "lift", "incident", "--yes", "--reason", "x")
    assert refused.code == 19
    assert "newer fencectl (version 2, this one reads 1)" in refused.stderr
    broken = fencectl("hold", "lift", "freeze", "--yes", "--reason", "x")
    assert broken.code == 0, broken.text
    assert set(data(ready)) == {"hold-incident", "lifted-freeze"}


def test_claim_is_lifted_by_its_name_and_never_placed(ready: Cluster, fencectl: Fencectl) -> None:
    """`claim` is enough while there is one."""
    assert fencectl("hold", "place", "claim", "--reason", "x").code == 2
    put(ready, claim_42=hold_text(why="no answer"), claim_43=hold_text(), hold_incident=hold_text())
    several = fencectl("hold", "lift", "claim", "--yes", "--reason", "x")
    assert several.code == 2
    assert "`claim-42`, `claim-43`" in several.stderr
    assert fencectl("hold", "lift", "claim-43", "--yes", "--reason", "x").code == 0
    last = fencectl("hold", "lift", "claim", "--yes", "--reason", "x")
    assert last.stderr == "✓ claim `claim-42` is lifted on prod; stays held: `incident`\n"
    assert set(data(ready)) == {"hold-incident", "lifted-claim"}


def test_hostile_reason_has_no_effect_in_any_output(ready: Cluster, fencectl: Fencectl) -> None:
    """Stored whole, shown harmless: in lists, refusals, reports, questions."""
    assert fencectl("hold", "place", "incident", "--reason", HOSTILE).code == 0
    assert json.loads(data(ready)["hold-incident"])["reason"] == HOSTILE
    assert data(ready)["hold-incident"].isascii()
    shapes = [("fences", "-o", shape) for shape in ("text", "json", "yaml", "markdown", "github", "openmetrics")]
    lines: list[tuple[str, ...]] = [
        ("hold", "list"),
        ("hold", "list", "-o", "json"),
        ("hold", "place", "incident", "--reason", HOSTILE),
        ("hold", "lift", "freeze", "--yes", "--reason", HOSTILE),
        *shapes,
        ("hold", "lift", "incident", "--yes", "--reason", HOSTILE, "-o", "json"),
        ("hold", "list"),
    ]
    for line in lines:
        text = fencectl(*line).text
        assert not set(text) & {"\x1b", "\r", "\u202e"}, line
        commands = [row for row in text.splitlines() if row.lstrip().startswith(("::", "##["))]
        assert all(row.startswith("::") and "owned" not in row.partition("::")[2][:20] for row in commands), line
        assert "##[" not in text, line
        assert not any(row.lstrip().startswith("::error::owned") for row in text.splitlines()), line
    assert data(ready)["lifted-incident"].isascii()


@pytest.mark.parametrize(("user", "verb"), [("user-14", "get"), ("user-15", "create"), ("user-16", "patch")])
def test_missing_right_ends_in_21_with_verb_and_resource(
    ready: Cluster, fencectl: Fencectl, user: str, verb: str
) -> None:
    """With RBAC in force: all rights but one, and nothing is changed."""
    rights = [right for right in ("get", "create", "patch") if right != verb]
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": rights}
    grant(ready, user, rule, namespace="flux-system")
    if verb == "patch":
        put(ready, foreign="x")
    refused = fencectl("hold", "place", "incident", *REASON, user=user)
    assert refused.code == 21, refused.text
    assert f"user {user} may not `{verb}` configmaps (namespace flux-system)" in refused.stderr
    assert "Nothing was changed" in refused.stderr
    if verb == "get":
        assert fencectl("hold", "list", user=user).code == 21
    if verb == "patch":
        assert data(ready) == {"foreign": "x"}


def test_missing_namespace_and_foreign_profile_are_usage_errors(
    clean_cluster: Cluster, fencectl: Fencectl, tmp_path: Path
) -> None:
    """Exit 2, with what to do."""
    (tmp_path / "fencectl.yaml").write_text(
        "apiVersion: fencectl.dev/v1\nkind: Config\nlease: {namespace: not-there, name: mine}\n"
    )
    missing = fencectl("hold", "place", "incident", *REASON)
    assert missing.code == 2, missing.text
    assert "no namespace `not-there` on prod" in missing.stderr
    empty = fencectl("hold", "list")
    assert empty.stdout == "no hold is on prod (configmap/not-there/mine-record)\n"
    foreign = fencectl("hold", "list", "--profile", "ghcr-bridge")
    assert foreign.code == 2
    assert "Nothing was read or changed" in foreign.stderr


def test_nobody_to_ask_is_an_error_before_anything_is_read(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Neither terminal nor --yes; nor a reason."""
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    seen = len(list(sandbox_cluster.sandbox.requests))
    for line in (("lift", "incident", "--reason", "x"), ("lift", "incident", "--yes"), ("place", "incident")):
        refused = run_program("hold", *line, kubeconfig=kubeconfig, cwd=tmp_path)
        assert refused.code == 2, refused.text
        assert refused.stdout == ""
    assert len(list(sandbox_cluster.sandbox.requests)) == seen


# A person at a terminal


@contextmanager
def at_terminal(
    cluster: Cluster, folder: Path, *arguments: str, module: str = "fencectl", **env: str
) -> Iterator[Spoken]:
    """Start the program at a terminal of its own."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 200))
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=environment(cluster.kubeconfig_file(context="prod"), TERM="dumb", **env),
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Spoken(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_person_is_asked_why_and_whether_before_a_hold_is_lifted(ready: Cluster, tmp_path: Path) -> None:
    """Only `yes` goes on; the printed command runs as it stands."""
    put(ready, hold_incident=hold_text(reason=HOSTILE, until="2026-11-30T02:30:00Z"))
    with at_terminal(ready, tmp_path, "hold", "lift", "incident", "--context", "prod") as person:
        shown = person.until("Why may it go? ")
        assert "hold incident on prod, held for " in shown
        assert "by eve@x" in shown
        assert not {"\x1b", "\u202e"} & set(shown)
        person.type("it is over\n")
        person.until("Lift hold `incident` on prod? Only `yes` goes on: ")
        person.type("y\n")
        assert person.to_the_end() == 2
        assert "nothing was lifted" in person.said
    assert set(data(ready)) == {"hold-incident"}
    with at_terminal(ready, tmp_path, "hold", "lift", "incident", "--reason", "over") as person:
        person.until("Only `yes` goes on: ")
        person.type("yes\n")
        assert person.to_the_end() == 0
    assert json.loads(data(ready)["lifted-incident"])["reason"] == "over"


def test_hold_that_became_another_one_while_it_was_asked_about_is_left_alone(
    ready: Cluster, tmp_path: Path
) -> None:
    """What was shown is what may go, and nothing else."""
    put(ready, hold_incident=hold_text())
    with at_terminal(ready, tmp_path, "hold", "lift", "incident", "--reason", "over") as person:
        person.until("Only `yes` goes on: ")
        ready.merge_patch(RECORD, {"data": {"hold-incident": hold_text(reason="INC-2", by="zoe@y")}}, manager="o")
        person.type("yes\n")
        assert person.to_the_end() == 19
        assert "is another hold by now" in person.said
        assert "by zoe@y" in person.said
        assert "INC-2" in person.said
    assert set(data(ready)) == {"hold-incident"}


def test_hold_that_somebody_else_lifted_while_it_was_asked_about_is_lifted(ready: Cluster, tmp_path: Path) -> None:
    """As it was asked to be; and by whom is said."""
    put(ready, hold_incident=hold_text())
    with at_terminal(ready, tmp_path, "hold", "lift", "incident", "--reason", "over") as person:
        person.until("Only `yes` goes on: ")
        gone = {"hold-incident": None, "lifted-incident": json.dumps({"v": 1, "by": "bob@desk", "id": "9"})}
        ready.merge_patch(RECORD, {"data": gone}, manager="other")
        person.type("yes\n")
        assert person.to_the_end() == 0
        assert "was lifted on prod by `bob@desk` meanwhile" in person.said


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the killed run has ended."""
    with LoopbackGitHub() as server:
        server.attempt(18093344127, 2, status="in_progress")
        server.job(18093344127, 2, 51234567890)
        yield server


def test_recovery_under_a_hold_is_refused_unattended_and_a_person_may_go_on(
    clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """`--yes` is nobody's decision; at a terminal the hold is shown above the question, and it stays."""
    before = killed_chain(clean_cluster, duration_s=1)
    put(clean_cluster, hold_incident=hold_text())
    kubeconfig = clean_cluster.kubeconfig_file(context="prod")
    refused = run_program(
        "recover", "--yes", kubeconfig=kubeconfig, cwd=tmp_path, env=github.env(), module="tests.support.impatient"
    )
    assert refused.code == 19
    assert "a hold incident is in place" in refused.stderr
    assert "`fencectl hold lift incident --context prod` lifts it" in refused.stderr
    with at_terminal(
        clean_cluster, tmp_path, "recover", module="tests.support.impatient", **github.env()
    ) as person:
        shown = person.until("Only `yes` goes on: ")
        assert "! a hold incident is in place (reason: INC-1; by eve@x)" in shown
        person.type("yes\n")
        assert person.to_the_end() == 0, person.said
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    assert set(data(clean_cluster)) == {"hold-incident"}
