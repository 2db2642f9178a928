"""
Rolling nodes on both clusters: each phase at its time, the node command, Ready, and what stays afterwards.

Aspects: claim · phases · prior state · the command's environment, failure and time · Ready, a silent kubelet, never
Ready · certified or not · a node that goes or comes anew · marks of others · interrupts · the lease · several at once.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from fencectl.core.certification import Certification, Outcome
from fencectl.core.deploy import CertifyPlan
from fencectl.core.errors import ExitCode
from fencectl.core.journal import Phase
from fencectl.core.profiles import HOLDER as HOLDER_MARK
from fencectl.core.releases import Lifted, lift_cordon
from fencectl.run.fencing import NotFencedError
from fencectl.run.keeper import LeaseLostError
from fencectl.run.nodes import NodeError, RollStoppedError
from fencectl.run.nodes_certify import NodeCertifier
from fencectl.run.payload import GRACE_S, SystemProcesses
from fencectl.run.ports import Process
from tests.support.clusters import Cluster
from tests.support.objects import HOLDER, OTHER, journal, mark
from tests.support.rolling import Rolling, rolling

TRUE = (sys.executable, "-c", "pass")


@pytest.fixture
def stage(cluster: Cluster) -> Iterator[Rolling]:
    with rolling(cluster) as stage:
        yield stage


@pytest.fixture
def boxed(sandbox_cluster: Cluster) -> Iterator[Rolling]:
    """Give a roll on the sandbox, for what can only be scripted there."""
    with rolling(sandbox_cluster) as stage:
        yield stage


def fails(code: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"raise SystemExit({code})")


def waits_for(flag: Path) -> tuple[str, ...]:
    """Give a command that runs until a file is there."""
    script = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.005)"
    return (sys.executable, "-c", script, str(flag))


def test_node_is_claimed_drained_changed_verified_and_released(stage: Rolling, tmp_path: Path) -> None:
    """All of it, with the node's name in the command's environment; afterwards the node is as it was."""
    taint = {"key": "pool", "value": "a", "effect": "NoSchedule"}
    before = stage.kubelet.join(annotations={"theirs": "stays"}, taints=[taint])
    node = stage.ref(before)
    stage.pod("web-1", node)
    phases: list[Phase | None] = []
    stage.each_s.append(lambda: phases.append(stage.phase(node)))
    out, go_on = tmp_path / "out", tmp_path / "go-on"
    script = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['FENCECTL_NODE'])"
    stage.when(out.exists, go_on.touch)
    both = "import subprocess, sys; [subprocess.run(one, check=True) for one in eval(sys.argv[1])]"
    commands = [[sys.executable, "-c", script, str(out)], list(waits_for(go_on))]

    stage.roller(sys.executable, "-c", both, repr(commands)).roll(node)

    assert out.read_text() == node.name
    after = stage.kubelet.node(node.name)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == {"theirs": "stays"}
    assert stage.ledger.fences == []
    assert list(dict.fromkeys(phases)) == [Phase.CLAIMED, Phase.MUTATING]
    told = stage.texts(node)
    assert told[:4] == ["claimed, cordoned", "draining, 1 pod left", "drained", "its node command runs"]
    assert told[-1] == "released (schedulable)"


def test_node_without_a_command_is_claimed_and_keeps_its_pods(stage: Rolling) -> None:
    """It stays cordoned until the run unwinds; nothing on it changes, so it is not drained either."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.roller().roll_all([node], max_unavailable=1)
    assert (stage.phase(node), stage.is_cordoned(node), stage.pods(node)) == (Phase.CLAIMED, True, {"web-1"})
    assert [fence.seen.ref for fence in stage.ledger.fences] == [node]


def test_node_that_was_cordoned_before_stays_cordoned(stage: Rolling) -> None:
    """Rolled like any other, and handed back as it was."""
    node = stage.ref(stage.kubelet.join(unschedulable=True))
    stage.roller(*TRUE).roll(node)
    assert (stage.mark(node), stage.is_cordoned(node)) == (None, True)
    assert stage.texts(node)[0] == "claimed, it was cordoned before and stays so"
    assert stage.texts(node)[-1] == "released (stays cordoned)"


def test_command_that_fails_keeps_its_code_and_the_node_mutating(stage: Rolling) -> None:
    """Only a person can say what is half done: it stays fenced, with the command that a person runs."""
    first, second = (stage.ref(stage.kubelet.join()) for _ in range(2))
    with pytest.raises(NodeError) as raised:
        stage.roller(*fails(7)).roll_all([first, second], max_unavailable=1)
    error = raised.value
    assert (error.command_code, error.node, error.phase) == (7, first, Phase.MUTATING)
    assert error.exit_code is ExitCode.STILL_FENCED
    assert error.sentence == f"the node command of {first.display} ended with 7"
    assert f"recover --node-verified {first.name}" in (error.hint or "")
    assert (stage.phase(first), stage.is_cordoned(first)) == (Phase.MUTATING, True)
    assert (stage.mark(second), stage.is_cordoned(second)) == (None, False)
    assert [fence.journal.phase for fence in stage.ledger.fences] == [Phase.MUTATING]


def test_command_beyond_its_time_is_ended(stage: Rolling, tmp_path: Path) -> None:
    """With its whole group, and the node stays mutating."""
    node = stage.ref(stage.kubelet.join())
    with pytest.raises(NodeError) as raised:
        stage.roller(*waits_for(tmp_path / "never"), node_timeout_s=20).roll(node)
    assert raised.value.sentence == f"the node command of {node.display} was ended after 20s"
    assert stage.phase(node) is Phase.MUTATING


class EndedAtOnce(SystemProcesses):
    """Commands that have ended before the moved clock goes on, however busy the machine is."""

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> Process:
        started = super().start(command, environ)
        started.wait()
        return started


def test_node_that_is_never_ready_stays_mutating(stage: Rolling) -> None:
    """The error names the node and what its kubelet says."""
    node = stage.ref(stage.kubelet.join())
    stage.kubelet.say_ready(node.name, False, message="container runtime is down")
    with pytest.raises(NodeError) as raised:
        stage.roller(*TRUE, node_timeout_s=20, processes=EndedAtOnce()).roll(node)
    assert raised.value.sentence == f"{node.display} is not Ready in time"
    why = "its condition Ready is False (KubeletNotReady: container runtime is down)"
    assert raised.value.reason == why
    assert stage.texts(node)[-1] == f"waits to be Ready: {why}"
    assert (stage.phase(node), stage.is_cordoned(node)) == (Phase.MUTATING, True)


def test_node_that_becomes_ready_in_time_is_released(stage: Rolling) -> None:
    """NotReady for a while is what a restart looks like; it is said once."""
    node = stage.ref(stage.kubelet.join())
    stage.kubelet.say_ready(node.name, False, message="starting")
    stage.after(20, lambda: stage.kubelet.say_ready(node.name, True))
    stage.roller(*TRUE).roll(node)
    assert stage.mark(node) is None
    assert sum(text.startswith("waits to be Ready") for text in stage.texts(node)) == 1


def test_ready_of_a_kubelet_that_is_silent_since_the_command_does_not_count(stage: Rolling) -> None:
    """The condition goes on saying Ready of a node that is switched off; a renewal after the command tells."""
    node = stage.ref(stage.kubelet.join())
    stage.kubelet.silent.add(node.name)
    silent = "waits to be Ready: its kubelet has given no sign of life since its command ended"
    stage.when(lambda: silent in stage.texts(node), lambda: stage.after(10, stage.kubelet.silent.clear))
    begun_s = stage.clock.boot_s
    stage.roller(*TRUE).roll(node)
    assert silent in stage.texts(node)
    assert stage.clock.boot_s - begun_s > 10
    assert stage.mark(node) is None


def test_ready_counts_as_it_stands_where_the_kubelet_has_no_lease(stage: Rolling) -> None:
    """Nothing else can be known of such a node."""
    node = stage.ref(stage.kubelet.join())
    stage.kubelet.silent.add(node.name)
    stage.cluster.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}")
    stage.roller(*TRUE).roll(node)
    assert stage.mark(node) is None


def test_node_with_a_mark_of_another_is_refused_before_any_write(stage: Rolling) -> None:
    """Also when it is not the first one: nothing is claimed."""
    first = stage.ref(stage.kubelet.join())
    theirs = journal(holder=OTHER, rank=1000, phase=Phase.CLAIMED)
    other = stage.ref(stage.kubelet.join(annotations=mark(theirs)))
    with pytest.raises(NotFencedError) as raised:
        stage.roller(*TRUE).roll_all([first, other], max_unavailable=1)
    assert OTHER in raised.value.sentence
    assert other.display in raised.value.sentence
    assert (stage.mark(first), stage.is_cordoned(first), stage.told) == (None, False, [])


def test_node_that_is_being_deleted_is_refused_before_any_write(stage: Rolling) -> None:
    """Its fence would go with it."""
    node = stage.ref(stage.kubelet.join())
    stage.patch_node(node, {"metadata": {"finalizers": ["fencectl.test/kept"]}})
    stage.delete_node(node)
    try:
        with pytest.raises(NotFencedError, match="is being deleted"):
            stage.roller(*TRUE).roll(node)
    finally:
        stage.patch_node(node, {"metadata": {"finalizers": None}})


def test_case_18_node_that_was_deleted_does_not_hold_up_the_others(stage: Rolling) -> None:
    """Chosen, and gone before its turn: said, and nothing to release."""
    gone, here = (stage.ref(stage.kubelet.join()) for _ in range(2))
    stage.delete_node(gone)
    stage.roller(*TRUE).roll_all([gone, here], max_unavailable=1)
    assert stage.texts(gone) == ["is gone, nothing to release"]
    assert stage.texts(here)[-1] == "released (schedulable)"
    assert stage.ledger.fences == []


def test_node_that_never_was_is_an_error(stage: Rolling) -> None:
    """A name that a person gave and nobody has seen yet is a slip, not an autoscaler."""
    node = stage.ref(stage.kubelet.join())
    unseen = type(node)("v1", "Node", "nodes", None, "no-such-node", "")
    with pytest.raises(NotFencedError, match="there is no such object"):
        stage.roller(*TRUE).roll(unseen)


def test_case_18_node_that_is_deleted_while_it_is_drained_is_gone(stage: Rolling) -> None:
    """Its fence went with it, and the others are rolled."""
    node, here = (stage.ref(stage.kubelet.join()) for _ in range(2))
    stage.pod("web-1", node)
    stage.kubelet.stuck.add("web-1")
    stage.after(5, lambda: stage.delete_node(node))
    stage.roller(*TRUE).roll_all([node, here], max_unavailable=1)
    assert stage.texts(node)[-1] == "is gone, nothing to release"
    assert stage.texts(here)[-1] == "released (schedulable)"
    assert stage.ledger.fences == []


@pytest.mark.parametrize("anew", [False, True])
def test_node_that_goes_during_its_command_is_not_verified(stage: Rolling, tmp_path: Path, anew: bool) -> None:
    """Another node of the same name proves nothing about this one, and carries no mark of ours."""
    node = stage.ref(stage.kubelet.join())
    go_on = tmp_path / "go-on"

    def replace() -> None:
        stage.delete_node(node)
        if anew:
            stage.kubelet.join(node.name)
        go_on.touch()

    stage.when(lambda: stage.phase(node) is Phase.MUTATING, replace)
    with pytest.raises(NodeError) as raised:
        stage.roller(*waits_for(go_on)).roll(node)
    how = "was deleted and made anew under the same name" if anew else "is gone"
    assert raised.value.sentence == f"{node.display} {how} since its node command began: it cannot be verified"
    assert raised.value.phase is None
    assert stage.ledger.fences == []
    if anew:
        assert (stage.mark(stage.ref(node.name)), stage.is_cordoned(node)) == (None, False)


def test_case_20_writes_of_others_all_the_time_do_not_refuse_a_fence(boxed: Rolling) -> None:
    """The resourceVersion moves between read and write: the claim, which guards it, is built anew; the rest pass."""
    node = boxed.ref(boxed.kubelet.join())
    sandbox = boxed.cluster.sandbox
    numbers = itertools.count()

    def bump() -> None:
        sandbox.store.patch("nodes", node.name, {"metadata": {"labels": {"n": str(next(numbers))}}})

    claims = sandbox.faults.on(bump, verb="patch", resource="nodes", subresource="", times=8)
    later = sandbox.faults.on(bump, verb="patch", resource="nodes", subresource="", after=9, times=3)
    boxed.roller(*TRUE).roll(node)
    assert (claims.hits, later.hits, next(numbers)) == (8, 3, 11)
    assert boxed.texts(node)[-1] == "released (schedulable)"


def test_case_20_printed_release_passes_after_writes_of_others(stage: Rolling) -> None:
    """It guards what must still hold, and never the version that a kubelet moves."""
    node = stage.ref(stage.kubelet.join())
    stage.roller().roll(node)
    fence = stage.ledger.fences[0]
    printed = lift_cordon(fence.seen, fence.journal)
    assert isinstance(printed, Lifted)
    stage.patch_node(node, {"metadata": {"labels": {"moved": "yes"}}})
    stage.kubelet.say_ready(node.name, True)
    assert stage.cluster.json_patch(node.path, printed.patch.body).status == 200
    assert (stage.mark(node), stage.is_cordoned(node)) == (None, False)


def test_interrupt_during_the_command_ends_it_and_leaves_the_node_mutating(stage: Rolling, tmp_path: Path) -> None:
    """What was asked to stop half-way is not releasable."""
    node = stage.ref(stage.kubelet.join())
    stage.when(lambda: "its node command runs" in stage.texts(node), lambda: setattr(stage, "stop", "SIGINT"))
    with pytest.raises(RollStoppedError) as raised:
        stage.roller(*waits_for(tmp_path / "never")).roll(node)
    assert (raised.value.why, raised.value.mutating) == ("SIGINT", (node,))
    assert raised.value.exit_code is ExitCode.STILL_FENCED
    assert stage.phase(node) is Phase.MUTATING


def test_commands_that_ignore_the_end_share_one_grace(boxed: Rolling, tmp_path: Path) -> None:
    """What a signal leaves of time must do for all of them."""
    nodes = [boxed.ref(boxed.kubelet.join()) for _ in range(3)]
    script = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1], os.environ['FENCECTL_NODE']).touch()\n"
        "while True: time.sleep(1)"
    )
    stopped_s: list[float] = []

    def stop() -> None:
        boxed.stop = "SIGINT"
        stopped_s.append(boxed.clock.boot_s)

    boxed.when(lambda: all((tmp_path / node.name).exists() for node in nodes), stop)
    with pytest.raises(RollStoppedError) as raised:
        boxed.roller(sys.executable, "-c", script, str(tmp_path)).roll_all(nodes, max_unavailable=3)
    assert set(raised.value.mutating) == set(nodes)
    assert boxed.clock.boot_s - stopped_s[0] < 1.5 * GRACE_S


def test_lease_that_is_lost_during_the_command_ends_it(boxed: Rolling, tmp_path: Path) -> None:
    """Nothing is written any more, and the node says that it may be half changed."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.when(
        lambda: "its node command runs" in boxed.texts(node),
        lambda: boxed.cluster.sandbox.faults.refuse(verb="patch", resource="leases", status=503),
    )
    with pytest.raises(LeaseLostError):
        boxed.roller(*waits_for(tmp_path / "never")).roll(node)
    assert boxed.phase(node) is Phase.MUTATING


def test_uncordon_by_hand_during_the_command_is_followed(stage: Rolling, tmp_path: Path) -> None:
    """The mark goes, and the node stays as that person wants it."""
    node = stage.ref(stage.kubelet.join())
    go_on = tmp_path / "go-on"

    def uncordon() -> None:
        stage.cluster.kubectl("uncordon", node.name)
        go_on.touch()

    stage.when(lambda: stage.phase(node) is Phase.MUTATING, uncordon)
    stage.roller(*waits_for(go_on)).roll(node)
    assert (stage.mark(node), stage.is_cordoned(node)) == (None, False)
    assert stage.texts(node)[-1] == "released (mark gone)"


@pytest.mark.parametrize("at_once", [1, 2])
def test_so_many_nodes_are_under_way_at_once(stage: Rolling, at_once: int) -> None:
    """Never more cordoned than that, and never fewer while some wait."""
    nodes = [stage.ref(stage.kubelet.join()) for _ in range(4)]
    cordoned: list[int] = []
    stage.each_s.append(lambda: cordoned.append(sum(stage.is_cordoned(node) for node in nodes)))
    stage.roller(*TRUE).roll_all(nodes, max_unavailable=at_once)
    assert max(cordoned) == at_once
    assert [stage.mark(node) for node in nodes] == [None] * 4


def test_failure_of_one_lets_the_command_of_another_end_and_begins_no_third(
    stage: Rolling, tmp_path: Path
) -> None:
    """Half a change is worse than none: the second is verified and released; what is only drained stops."""
    first, second, third = (stage.ref(stage.kubelet.join()) for _ in range(3))
    go_on = tmp_path / "go-on"
    script = (
        "import os, pathlib, sys, time\n"
        f"if os.environ['FENCECTL_NODE'] == {first.name!r}: raise SystemExit(3)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.005)"
    )
    failed = f"the node command of {first.display} ended with 3"
    stage.when(lambda: failed in stage.texts(first), lambda: stage.after(3, go_on.touch))
    with pytest.raises(NodeError, match="ended with 3"):
        stage.roller(sys.executable, "-c", script, str(go_on)).roll_all([first, second, third], max_unavailable=2)
    assert stage.phase(first) is Phase.MUTATING
    assert (stage.mark(second), stage.is_cordoned(second)) == (None, False)
    assert stage.texts(third) == []


def test_first_node_goes_alone_until_it_is_certified(stage: Rolling, tmp_path: Path) -> None:
    """Then so many at once as were asked for; each is certified once it is Ready, with its name, before its release."""
    nodes = [stage.ref(stage.kubelet.join()) for _ in range(3)]
    seen = tmp_path / "seen"
    script = "import os, sys; open(sys.argv[1], 'a').write(os.environ['FENCECTL_NODE'] + '\\n')"
    noted: list[Certification] = []
    certifier = NodeCertifier(CertifyPlan((sys.executable, "-c", script, str(seen))), noted.append)
    at_once: list[tuple[bool, int]] = []
    stage.each_s.append(
        lambda: at_once.append((certifier.vouched, sum(stage.is_cordoned(node) for node in nodes)))
    )
    stage.roller(*TRUE, certifier=certifier).roll_all(nodes, max_unavailable=2)
    assert max(number for vouched, number in at_once if not vouched) == 1
    assert max(number for _, number in at_once) == 2
    assert sorted(seen.read_text().split()) == sorted(node.name for node in nodes)
    told = {(one.word, one.why) for one in noted}
    assert told == {("certified", f"{node.display}: the certify command ended with 0") for node in nodes}
    said = stage.texts(nodes[0])
    assert said.index("its certify command runs") > said.index("its node command runs")
    assert said[-2:] == ["certified", "released (schedulable)"]


@pytest.mark.parametrize(
    ("command", "timeout_s", "wanted"),
    [
        (fails(3), 300, ("was rejected", "the certify command ended with 3", 3)),
        (None, 20, ("was not certified", "the certify command was ended after 20s", None)),
    ],
    ids=["rejected", "too-long"],
)
def test_node_that_is_not_certified_stays_mutating_and_begins_no_other(
    boxed: Rolling,
    tmp_path: Path,
    command: tuple[str, ...] | None,
    timeout_s: float,
    wanted: tuple[str, str, int | None],
) -> None:
    """Its own command went well, and still only a person can say that it is good."""
    first, second = (boxed.ref(boxed.kubelet.join()) for _ in range(2))
    plan = CertifyPlan(command or waits_for(tmp_path / "never"), timeout_s=timeout_s)
    noted: list[Certification] = []
    with pytest.raises(NodeError) as raised:
        boxed.roller(*TRUE, certifier=NodeCertifier(plan, noted.append)).roll_all(
            [first, second], max_unavailable=2
        )
    error = raised.value
    assert (error.sentence, error.reason, error.command_code) == (f"{first.display} {wanted[0]}", *wanted[1:])
    assert (error.exit_code, error.phase) == (ExitCode.STILL_FENCED, Phase.MUTATING)
    assert f"recover --node-verified {first.name}" in (error.hint or "")
    assert boxed.phase(first) is Phase.MUTATING
    assert boxed.texts(second) == []
    assert [one.outcome is Outcome.CERTIFIED for one in noted] == [False]


def test_interrupt_while_a_node_is_certified_leaves_it_mutating(boxed: Rolling, tmp_path: Path) -> None:
    """The certify command is ended with its group; nobody has vouched for the node."""
    node = boxed.ref(boxed.kubelet.join())
    plan = CertifyPlan(waits_for(tmp_path / "never"))
    boxed.when(
        lambda: "its certify command runs" in boxed.texts(node), lambda: setattr(boxed, "stop", "interrupted")
    )
    noted: list[Certification] = []
    with pytest.raises(RollStoppedError) as raised:
        boxed.roller(*TRUE, certifier=NodeCertifier(plan, noted.append)).roll(node)
    assert raised.value.mutating == (node,)
    assert (boxed.phase(node), noted) == (Phase.MUTATING, [])


@pytest.mark.parametrize("subject", ["claim", "mutating", "verified", "release"])
def test_lost_answer_of_each_write_changes_nothing(boxed: Rolling, subject: str) -> None:
    """Each is carried out, its answer lost, and the roll goes on as if it had come."""
    node = boxed.ref(boxed.kubelet.join())
    after = ["claim", "mutating", "verified", "release"].index(subject)
    lost = boxed.cluster.sandbox.faults.drop_after(verb="patch", resource="nodes", after=after, times=1)
    # NB: the kubelet writes to `nodes/status`, which is another subresource and is not counted.
    lost.subresource = ""
    boxed.roller(*TRUE).roll(node)
    assert lost.hits == 1
    assert (boxed.mark(node), boxed.is_cordoned(node), boxed.ledger.fences) == (None, False, [])


def test_release_that_is_forbidden_leaves_the_node_verified(boxed: Rolling) -> None:
    """It stays in the ledger, releasable, for the unwinding."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.cluster.sandbox.faults.refuse(verb="patch", resource="nodes", subresource="", after=3, status=403)
    with pytest.raises(NodeError, match="is not released: the API server refuses"):
        boxed.roller(*TRUE).roll(node)
    assert boxed.phase(node) is Phase.VERIFIED
    assert [fence.journal.phase for fence in boxed.ledger.fences] == [Phase.VERIFIED]


def test_mark_names_the_run(stage: Rolling) -> None:
    """What a report finds on the node."""
    node = stage.ref(stage.kubelet.join())
    stage.roller().roll(node)
    annotations = stage.kubelet.node(node.name)["metadata"]["annotations"]
    assert annotations[HOLDER_MARK] == HOLDER
