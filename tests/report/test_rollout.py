"""Aspects: the block as a person reads it · what is only counted · nodes · hostile text · the same as data."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import (
    Cause,
    EventLine,
    Followed,
    NodeRollout,
    NodeState,
    PodEvidence,
    PodTrouble,
    Result,
    RolloutVerdict as V,
    Target,
    worst_first,
    worst_verdict,
)
from fencectl.report.rollout import followed_object, result_lines, sum_sentence
from fencectl.report.style import Style

NOW = datetime(2026, 11, 30, 3, 1, tzinfo=UTC)
CRASH = PodTrouble(
    "shop", "checkout-6d9f7c5b8-x2x7k", "uid-1", "worker-3", Cause.CRASH, "CrashLoopBackOff", "back-off 2m40s",
    container="app", exit_code=137, ended="OOMKilled", ran_s=11.4, restarts=4,
)  # fmt: skip
EVENT = EventLine("2026-11-30T02:59:31Z", "BackOff", "back-off restarting failed container", 4)


def result(verdict: V, kind: str, name: str, cause: Cause, reason: str, **more: object) -> Result:
    ref = ObjectRef("apps/v1", kind, f"{kind.lower()}s", "shop", name, f"uid-{name}")
    return Result(Target(ref, 3), verdict, cause, reason, 71.25, **more)  # type: ignore[arg-type]


def followed(*results: Result, **more: object) -> Followed:
    ordered = worst_first(results)
    return Followed(ordered, worst_verdict(ordered), **more)  # type: ignore[arg-type]


GOOD = [result(V.SUCCEEDED, "Deployment", f"good-{number}", Cause.DONE, "done") for number in range(12)]
LOG = ("loading 2.1 GiB price table", "Killed")
FAILED = result(
    V.FAILED, "Deployment", "checkout", Cause.CRASH, "crash loop, 4 restarts (budget 3)",
    pods=(PodEvidence(CRASH, (EVENT,), LOG, "app", previous=True),),
)  # fmt: skip
WAITED = result(V.WAITING, "StatefulSet", "cart", Cause.ROLLING, "2 of 3 updated when the follow ended")


def test_block_says_worst_first_what_a_person_would_look_up_next() -> None:
    """As in the story of the failed deploy: node, container, exit code, event and log are never behind `-v`."""
    whole = followed(*GOOD, WAITED, FAILED)
    assert sum_sentence(whole) == "1 of 14 objects failed, 1 waited, 12 succeeded"
    assert result_lines(whole, now=NOW) == [
        "deployment/shop/checkout  failed: crash loop, 4 restarts (budget 3)",
        "  pod     checkout-6d9f7c5b8-x2x7k on worker-3",
        "  exit    container `app` 137 (OOMKilled), 11s after its start",
        "  event   02:59:31Z BackOff: back-off restarting failed container (4x)",
        "  log     last 2 lines, container `app`, previous run:",
        "        | loading 2.1 GiB price table",
        "        | Killed",
        "statefulset/shop/cart  waiting: 2 of 3 updated when the follow ended",
    ]


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ([], "0 objects succeeded"),
        ([V.SUCCEEDED], "1 object succeeded"),
        ([V.TIMED_OUT, V.SUCCEEDED], "1 of 2 objects timed out, 1 succeeded"),
        ([V.UNKNOWN, V.UNKNOWN, V.FAILED], "1 of 3 objects failed, 2 unknown"),
    ],
)
def test_sum_names_each_verdict_with_its_number(verdicts: list[V], sentence: str) -> None:
    """A part comes with its whole."""
    assert sum_sentence(followed(*(result(one, "Deployment", f"d{n}", Cause.DONE, "r") for n, one in enumerate(verdicts)))) == sentence  # fmt: skip


def test_what_has_succeeded_is_not_listed() -> None:
    assert result_lines(followed(*GOOD), now=NOW) == []


def test_node_that_is_down_is_said_to_be_no_fault_of_the_deploy() -> None:
    """case_54: which nodes, and that going back would not help."""
    nodes = (
        NodeState("n9", NodeRollout.NOT_CONFIRMED, "the node is down: its condition Ready is Unknown"),
        NodeState("n1", NodeRollout.UPDATED),
    )
    one = result(V.TIMED_OUT, "DaemonSet", "agent", Cause.NODE, "updated on 2 of 2 nodes, available on 1; n9 is down, after 30m00s", nodes=nodes)  # fmt: skip
    assert result_lines(followed(one), now=NOW) == [
        "daemonset/shop/agent  timed out: updated on 2 of 2 nodes, available on 1; n9 is",
        "  down, after 30m00s",
        "  node    n9 not confirmed, the node is down: its condition Ready is Unknown",
        "! all that is missing is on nodes that are down: that is no fault of what was",
        "  deployed",
    ]


def test_node_that_nobody_could_confirm_is_shown_beside_a_success() -> None:
    """Its controller does not count it; whoever looks after the node wants to know."""
    nodes = (NodeState("n9", NodeRollout.NOT_CONFIRMED, "its pod is ending"),)
    one = result(V.SUCCEEDED, "DaemonSet", "agent", Cause.DONE, "updated and available on 4 nodes; not confirmed on n9", nodes=nodes)  # fmt: skip
    assert result_lines(followed(one), now=NOW) == [
        "! daemonset/shop/agent: updated and available on 4 nodes; not confirmed on n9",
        "  node    n9 not confirmed, its pod is ending",
    ]


def test_many_pods_and_nodes_are_counted_in_text_and_whole_in_data() -> None:
    pods = tuple(PodEvidence(CRASH) for _ in range(20))
    nodes = tuple(NodeState(f"n{n:02}", NodeRollout.FAILING, "crash loop") for n in range(20))
    whole = followed(result(V.FAILED, "DaemonSet", "agent", Cause.CRASH, "r", pods=pods, nodes=nodes))
    lines = result_lines(whole, now=NOW)
    assert "          and 17 more pods" in lines
    assert "          and 15 more nodes" in lines
    found = followed_object(whole)["objects"][0]
    assert (len(found["pods"]), len(found["nodes"])) == (20, 20)


def test_what_could_not_be_read_is_said() -> None:
    one = result(
        V.FAILED, "Deployment", "web", Cause.CRASH, "r", pods=(PodEvidence(CRASH, missing=("log: 403: no",)),)
    )
    lines = result_lines(followed(one, notes=("pods (namespace shop) could not be read: forbidden",)), now=NOW)
    assert "  missing could not be read: log: 403: no" in lines
    assert lines[-1] == "! pods (namespace shop) could not be read: forbidden"


EVIL = f"\x1b[2J::error::x\n##[command]\u202e {'x' * 60} ::error::y"


def test_foreign_text_does_nothing_on_a_terminal_or_in_a_log() -> None:
    """A pod writes its own log, names its own containers, and so on: each line begins with our own words."""
    trouble = PodTrouble(EVIL, EVIL, EVIL, EVIL, Cause.CRASH, EVIL, EVIL, container=EVIL, exit_code=1, ended=EVIL)
    evidence = PodEvidence(trouble, (EventLine(EVIL, EVIL, EVIL, 2),), (EVIL, "::error::y"), EVIL, missing=(EVIL,))
    waits = PodTrouble(EVIL, EVIL, EVIL, EVIL, Cause.NOT_READY, EVIL, EVIL)
    ref = ObjectRef("v1", EVIL, EVIL, EVIL, EVIL, EVIL)
    nodes = (NodeState(EVIL, NodeRollout.FAILING, EVIL),)
    one = Result(
        Target(ref, 1),
        V.FAILED,
        Cause.CRASH,
        EVIL,
        1.0,
        nodes,
        (evidence, PodEvidence(waits)),
        (EventLine("", EVIL, EVIL),),
    )
    whole = followed(one, notes=(EVIL,))
    lines = result_lines(whole, now=NOW, style=Style())
    text = "\n".join(lines)
    assert not {"\x1b", "\u202e"} & set(text)
    assert "##[" not in text
    assert not [line for line in lines if line.lstrip().startswith(("::", "##["))]
    assert json.loads(json.dumps(followed_object(whole)))["objects"][0]["pods"][0]["log"][0] == EVIL


def test_data_has_every_fact_under_its_name() -> None:
    """What others build on: keys are only ever added."""
    found = followed_object(followed(FAILED, stopped="INT", took_s=12.3456))
    assert {key: found[key] for key in ("outcome", "stopped", "took_s", "blamesNodes", "notes")} == {
        "outcome": "failed", "stopped": "INT", "took_s": 12.346, "blamesNodes": False, "notes": [],
    }  # fmt: skip
    [one] = found["objects"]
    assert one["object"] == {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "checkout", "uid": "uid-checkout"}  # fmt: skip
    assert (one["verdict"], one["cause"], one["generation"], one["noticed_s"]) == ("failed", "crash", 3, 71.25)
    [pod] = one["pods"]
    assert (pod["node"], pod["container"], pod["exitCode"], pod["ended"], pod["previous"]) == ("worker-3", "app", 137, "OOMKilled", True)  # fmt: skip
    assert pod["events"] == [{"at": EVENT.at, "reason": EVENT.reason, "message": EVENT.message, "times": 4}]
