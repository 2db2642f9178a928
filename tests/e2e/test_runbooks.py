"""
Every command of every runbook, run in the state that the runbook describes.

The text comes from `fencectl runbook NAME`, with the cluster's values filled in; each of its blocks is run as it
stands by the real `sh`, with the real kubectl and fencectl, and a person's answers typed at a terminal. The states are
made by real deploys that end as the runbook says. A block that no case here runs fails a test.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from fencectl.core.journal import Phase
from fencectl.core.runbooks import RUNBOOKS
from fencectl.report.runbook import Block, parts_of
from tests.support.clusters import Cluster, ensure_namespace, make_configmap, make_kustomization, make_node
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene, Running, take_over, wait_until
from tests.support.fencing import killed_chain, playing
from tests.support.github import SELF_HOSTED, LoopbackGitHub
from tests.support.objects import HOLDER
from tests.support.shells import Shell

ROOT = Path(__file__).parents[2]
YES = (("Only `yes` goes on: ", "yes"),)
NONE_HELD = "no fence is held on prod"


@dataclass
class World:
    """A cluster, a person's shell on it, and the deploys that made it what it is."""

    cluster: Cluster
    folder: Path
    user: str = "admin"
    started: list[Running] = field(default_factory=list)
    child: Child | None = None
    rollback: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=lambda: {"GITHUB_REPOSITORY": "acme/platform"})
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def shell(self) -> Shell:
        return Shell(self.cluster, self.folder / "shell", self.env, self.user)

    def scene(self) -> DeployScene:
        """The objects that deploys fence, and a way to start them; what is started is ended with the test."""
        made = DeployScene.on(self.cluster, self.folder)
        made.started = self.started
        return made

    def sh(self, script: str) -> None:
        """Something that somebody did before the runbook is opened."""
        code, said = Shell(self.cluster, self.folder / "before", {}).run(script)
        assert code == 0, said


@dataclass(frozen=True)
class Step:
    """
    One block, by its number in the runbook: its status, what it says, and what is typed.

    `on_real`: what only the real server says besides. `first`: what somebody else does before it.
    """

    block: int
    code: int = 0
    says: tuple[str, ...] = ()
    on_real: tuple[str, ...] = ()
    answers: Sequence[tuple[str, str]] = ()
    first: Callable[[World], None] = lambda world: None


@dataclass(frozen=True)
class Case:
    """A state, and the blocks of a runbook that are run in it, in order. `real`: on the real API server too."""

    book: str
    state: Callable[[World], None]
    steps: tuple[Step, ...]
    real: bool = False
    name: str = ""


def killed_deploy(world: World, *options: str, env: dict[str, str] | None = None) -> DeployScene:
    """A deploy is killed while its command runs, an hour ago."""
    scene = world.scene()
    child = Child(scene.folder)
    running = scene.start(*(options or scene.fences), command=child.command, module=HASTY, env=env)
    child.wait_begun(running)
    running.kill()
    scene.age_lease()
    return scene


def ended_with_11(world: World) -> None:
    """Its nodes could not be released: the right to patch them was gone for a while."""
    scene = world.scene()
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    world.cluster.sandbox.faults.refuse(verb="patch", resource="nodes", status=403)
    child.let_end()
    done = running.ended()
    assert done.code == 11, done.text
    assert "hint: fencectl runbook still-fenced --context prod" in done.stderr
    world.cluster.sandbox.faults.clear()
    scene.age_lease()


def refused_with_16(world: World) -> None:
    scene = killed_deploy(world)
    refused = scene.deploy(*scene.fences, module=HASTY)
    assert refused.code == 16, refused.text


def holder_that_nobody_can_judge(world: World) -> None:
    """A run on GitHub, and no token to ask about it."""
    killed_chain(world.cluster, duration_s=1)


def presumed_dead(world: World) -> None:
    """Its job has ended on a self-hosted runner, whose process may live on."""
    killed_chain(world.cluster, duration_s=1)
    github = world.stack.enter_context(LoopbackGitHub())
    github.attempt(18093344127, 2, status="in_progress")
    github.job(18093344127, 2, 51234567890, runner=SELF_HOSTED)
    world.env |= github.env()


def live(world: World) -> None:
    scene = world.scene()
    world.child = Child(scene.folder)
    running = scene.start(*scene.fences, command=world.child.command)
    world.child.wait_begun(running)
    refused = scene.deploy(*scene.fences)
    assert refused.code == 12, refused.text


def let_it_end(world: World) -> None:
    assert world.child is not None
    world.child.let_end()
    assert world.started[0].ended().code == 0


def node_half_changed(world: World) -> None:
    """The deploy is killed while the node's command runs."""
    scene = world.scene()
    child = Child(scene.folder)
    script = scene.folder / "upgrade-node"
    script.write_text(f"#!/bin/sh\nexec {' '.join(map(_quoted, child.command))}\n")
    script.chmod(0o700)
    running = scene.start("--node", "worker-2", "--node-command", str(script), module=HASTY)
    child.wait_begun(running)
    running.kill()
    scene.age_lease()
    refused = scene.deploy(*scene.fences, module=HASTY)
    assert refused.code == 19, refused.text


def mark_without_a_journal(world: World) -> None:
    """Somebody has tidied up annotations that he did not know."""
    ensure_namespace(world.cluster, "flux-system")
    # NB: the server begins to track who wrote what only where there was something to track from the start.
    make_node(world.cluster, "worker-2", labels={"zone": "a"})
    world.sh(f"kubectl cordon worker-2\nkubectl annotate node worker-2 fencectl.dev/holder={HOLDER}")


def rolled_back_by_hand_and_kept(world: World) -> None:
    """A deploy from a workstation: what its command broke is back, and Flux may not break it again."""
    scene = DeployScene(world.cluster, world.folder, {}, world.started, {})
    for name, parent in (("flux-system", None), ("apps", ("flux-system", "flux-system"))):
        make_kustomization(world.cluster, name, applied_by=parent)
    applied = scene.deploy("--prune", "-f", _written(scene, _config_map("a")), payload=False)
    assert applied.code == 0, applied.text
    breaks = 'kubectl -n default patch configmap a --type=merge -p \'{"data":{"a":"broken"}}\'; exit 3'
    more = ("--suspend", "kustomization/flux-system/apps", "--drain-timeout", "0s", "--rollback", "on-failure")
    done = scene.deploy(*more, command=("sh", "-c", breaks))
    assert done.code == 11, done.text
    assert world.cluster.get("/api/v1/namespaces/default/configmaps/a")["data"] == {"a": "1"}
    refused = scene.deploy(command=("true",))
    assert refused.code == 19, refused.text


def rolled_back_and_kept(world: World) -> None:
    """A run on GitHub: parent and child stay suspended, and the lease is free."""
    for name, parent in (("flux-system", None), ("apps", ("flux-system", "flux-system"))):
        make_kustomization(world.cluster, name, applied_by=parent)
    with playing(world.cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        for rank, name in enumerate(("flux-system", "apps"), start=1):
            run.enter_phase(run.suspend("flux-system", name, rank=rank), Phase.KEPT, reason="rolled back")
    world.sh(
        "kubectl -n flux-system patch lease fencectl-deploy --type=merge"
        """ -p '{"spec":{"holderIdentity":""},"metadata":{"annotations":{"fencectl.dev/journal":null}}}'"""
    )
    github = world.stack.enter_context(LoopbackGitHub())
    github.job(18093344127, 2, 51234567890)
    world.env |= github.env()


def somebody_suspended_it(world: World) -> None:
    scene = DeployScene(world.cluster, world.folder, {}, world.started, {})
    make_kustomization(world.cluster, "flux-system")
    world.sh(
        'kubectl -n flux-system patch kustomization flux-system --type=merge -p \'{"spec":{"suspend":true}}\''
    )
    refused = scene.deploy("--suspend", "kustomization/flux-system/flux-system", "--drain-timeout", "0s")
    assert refused.code == 19, refused.text


def somebody_resumed_it(world: World) -> None:
    world.sh(
        'kubectl -n flux-system patch kustomization flux-system --type=merge -p \'{"spec":{"suspend":null}}\''
    )


def held_by_hand(world: World) -> None:
    ensure_namespace(world.cluster, "flux-system")
    world.sh("fencectl hold place freeze --reason 'the end of the year' --until 3h")


def deployed(world: World, times: int) -> DeployScene:
    """Two objects, deployed so often, each time with another value."""
    scene = world.scene()
    for number in range(times):
        maps = [{**_config_map(name), "data": {"a": str(number)}} for name in ("a", "b")]
        done = scene.deploy("-f", _written(scene, *maps), payload=False)
        assert done.code == 0, done.text
    return scene


def rolled_back_in_part(world: World) -> None:
    """The right to change one of the objects was missing."""
    scene = deployed(world, 2)
    world.cluster.sandbox.faults.refuse(verb="patch", resource="configmaps", name="b", status=403)
    done = scene.run("rollback", "--yes")
    assert done.code == 18, done.text
    world.cluster.sandbox.faults.clear()
    refused = scene.deploy(command=("true",))
    assert refused.code == 19, refused.text


def restoring(world: World) -> None:
    """A rollback is under way; another one is refused."""
    scene = deployed(world, 3)
    world.cluster.sandbox.faults.hang(verb="patch", resource="configmaps", name="b", times=1)
    line = [sys.executable, "-m", "fencectl", "rollback", "--yes", "--context", "prod"]
    with (scene.folder / "rollback").open("wb") as said:
        world.rollback = subprocess.Popen(
            line, cwd=scene.folder, env=scene.environment(), stdout=said, stderr=said, stdin=subprocess.DEVNULL
        )
    world.stack.callback(world.rollback.kill)
    wait_until(lambda: _phase(scene, 4) == "restoring", "the rollback restores")
    refused = scene.run("rollback", "--yes")
    assert refused.code == 17, refused.text


def _phase(scene: DeployScene, generation: int) -> str | None:
    try:
        return str(scene.record(generation)["phase"])
    except KeyError:
        return None


def let_it_restore(world: World) -> None:
    world.cluster.sandbox.faults.clear()
    assert world.rollback is not None
    assert world.rollback.wait(60) == 0


def lease_stolen(world: World) -> None:
    scene = world.scene()
    child = Child(scene.folder)
    running = scene.start(command=child.command, module=HASTY)
    child.wait_begun(running)
    take_over(scene)
    done = running.ended()
    assert done.code == 13, done.text
    assert "hint: fencectl runbook lease-lost --context prod" in done.stderr


def they_free_it(world: World) -> None:
    world.cluster.merge_patch(LEASE_PATH, {"spec": {"holderIdentity": ""}}, manager="other")


def command_failed(world: World) -> None:
    done = world.scene().deploy(command=("false",))
    assert done.code == 18, done.text
    assert done.stderr.endswith("hint: fencectl runbook new-state-live --context prod\n")


def followed_to_no_end(world: World) -> None:
    """What was applied may not be read back."""
    scene = world.scene()
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }
    for verb in ("list", "watch"):
        world.cluster.sandbox.faults.refuse(verb=verb, resource="deployments", status=403)
    done = scene.deploy("-f", _written(scene, manifest), payload=False)
    assert done.code == 15, done.text
    world.cluster.sandbox.faults.clear()


def prune_withheld(world: World) -> None:
    scene = world.scene()
    maps = [_config_map(f"cm-{number}") for number in range(4)]
    assert scene.deploy("--prune", "-f", _written(scene, *maps), payload=False).code == 0
    done = scene.deploy("--prune", "-f", _written(scene, maps[0]), payload=False)
    assert done.code == 15, done.text


def nothing_was_changed(world: World) -> None:
    """A field of the manifest belongs to somebody else."""
    scene = world.scene()
    make_configmap(world.cluster, "theirs", data={"a": "2"}, manager="other")
    assert scene.deploy(command=("true",)).code == 0
    done = scene.deploy("-f", _written(scene, _config_map("theirs")), payload=False)
    assert done.code == 10, done.text


def may_not_read_nodes(world: World) -> None:
    ensure_namespace(world.cluster, "flux-system")
    world.user = "viewer"


def they_grant_the_role(world: World) -> None:
    """Whoever may: the very role that was printed."""
    printed = (world.shell.folder / "role.yaml").read_text()
    for role in yaml.safe_load_all(printed):
        if role and role["kind"] in ("ClusterRole", "Role"):
            rules = role["rules"]
            world.cluster.sandbox_grant(world.user, rules, namespace=role["metadata"].get("namespace"))


def nothing_is_held(world: World) -> None:
    ensure_namespace(world.cluster, "flux-system")


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _config_map(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "1"},
    }


def _written(scene: DeployScene, *objects: object) -> str:
    path = scene.folder / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


FREE = Step(2, says=(NONE_HELD,))
CASES = [
    Case(
        "still-fenced",
        ended_with_11,
        (
            Step(0, says=("dead (proven)", "node/worker-2")),
            Step(1, says=("released 5 of 5",), answers=YES),
            Step(2, says=(NONE_HELD,)),
            Step(3, says=("GEN",)),
        ),
    ),
    Case(
        "dead-holder",
        refused_with_16,
        (
            Step(0, says=("would release 5 fences",)),
            Step(1, says=("released 5 of 5",), answers=YES),
            Step(3, says=(NONE_HELD,)),
        ),
        real=True,
        name="recover",
    ),
    Case(
        "dead-holder",
        refused_with_16,
        (Step(2, says=("released 5 of 5",)), Step(3, says=(NONE_HELD,))),
        name="by-kubectl",
    ),
    Case(
        "unknown-holder",
        holder_that_nobody_can_judge,
        (
            Step(0, says=("verdict    unknown", "no token", "gh run view 18093344127")),
            Step(1, says=("released 5 of 5",)),
            Step(2, says=(NONE_HELD,)),
        ),
    ),
    Case(
        "presumed-holder",
        presumed_dead,
        (
            Step(0, says=("dead (presumed)", "self-hosted")),
            Step(1, says=("released 5 of 5",), answers=YES),
            Step(2, says=(NONE_HELD,)),
        ),
    ),
    Case(
        "live-holder",
        live,
        (
            Step(0, says=("verdict    live", "Nothing can be released now")),
            Step(1, says=(NONE_HELD,), first=let_it_end),
        ),
    ),
    Case(
        "node-mutating",
        node_half_changed,
        (
            Step(0, says=("worker-2", "SchedulingDisabled")),
            Step(1, says=("Name:", "worker-2", "fencectl.dev/holder")),
            Step(2, says=("released 2 of 2",), answers=YES),
            Step(3, says=(NONE_HELD, "worker-2")),
        ),
        real=True,
    ),
    Case(
        "unusable-mark",
        mark_without_a_journal,
        (
            Step(0, says=("REFUSED", "node/worker-2")),
            Step(1, says=(f"fencectl.dev/holder: {HOLDER}",), on_real=("manager: kubectl-annotate",)),
            Step(2, says=("node/worker-2 annotate",)),
            Step(3, says=(NONE_HELD,)),
        ),
        real=True,
    ),
    Case(
        "kept-suspension",
        rolled_back_and_kept,
        (
            Step(0, says=("2 of them KEPT on purpose",)),
            Step(1),
            Step(2, says=("released 2 of 2",), answers=YES),
            Step(4, says=(NONE_HELD, "apps")),
        ),
        name="in-ci",
    ),
    Case(
        "kept-suspension",
        rolled_back_by_hand_and_kept,
        (
            Step(0, says=("KEPT", "2 fences held on prod")),
            Step(3, says=("released 2 of 2",)),
            Step(4, says=(NONE_HELD, "apps")),
        ),
        real=True,
        name="by-hand",
    ),
    Case(
        "not-ours",
        somebody_suspended_it,
        (
            Step(0, says=("suspend: true",), on_real=("f:suspend", "manager: kubectl-patch")),
            Step(1, says=(NONE_HELD,), first=somebody_resumed_it),
        ),
        real=True,
    ),
    Case(
        "claim",
        rolled_back_in_part,
        (
            Step(0, says=("claim", "GEN")),
            Step(1, says=("generation 1", "is back"), answers=YES),
            Step(3, says=("no hold",)),
        ),
        name="rolled-back",
    ),
    Case(
        "claim",
        rolled_back_in_part,
        (
            Step(2, answers=(("Why may it go? ", "it was checked by hand"), *YES)),
            Step(3, says=("no hold",)),
        ),
        name="lifted",
    ),
    Case(
        "rollback-running",
        restoring,
        (
            Step(0, says=("verdict    live",)),
            Step(1, says=("undoes generation 2", "nothing was changed"), first=let_it_restore),
            Step(2, says=("restored", NONE_HELD)),
        ),
    ),
    Case(
        "hold",
        held_by_hand,
        (
            Step(0, says=("freeze", "the end of the year")),
            Step(1, answers=(("Why may it go? ", "it is over"), *YES)),
            Step(2, says=("no hold",)),
        ),
        real=True,
    ),
    Case(
        "person-needed",
        held_by_hand,
        (
            Step(0, says=("hold freeze",)),
            Step(1, says=("1 hold matches now",)),
            Step(
                2, says=(NONE_HELD,), first=lambda world: world.sh("fencectl hold lift freeze --reason over --yes")
            ),
        ),
    ),
    Case(
        "lease-lost",
        lease_stolen,
        (
            Step(0, says=("holderIdentity: 9be1c04477aa02d1", "lease/flux-system/fencectl-deploy")),
            Step(1, says=("ok",)),
            Step(2, says=("GEN",)),
            Step(3, says=(NONE_HELD,), first=they_free_it),
        ),
    ),
    Case(
        "new-state-live",
        command_failed,
        (
            Step(0, says=("generation 1 on prod",)),
            Step(1),
            Step(2, says=("GEN",)),
        ),
    ),
    Case(
        "outcome-unknown",
        followed_to_no_end,
        (
            Step(0, says=("generation 1 on prod",)),
            Step(1, says=("0 failed",)),
            Step(2),
            Step(3, says=(NONE_HELD,)),
        ),
    ),
    Case(
        "prune-withheld",
        prune_withheld,
        (
            Step(0, says=("generation 2 on prod", "the prune was withheld")),
            Step(1, says=("0 failed",)),
            Step(2, says=(NONE_HELD,)),
        ),
    ),
    Case(
        "deploy-failed",
        nothing_was_changed,
        (Step(0, says=("GEN",)), Step(1, says=("0 failed",)), Step(2, says=(NONE_HELD,))),
    ),
    Case(
        "incomplete",
        may_not_read_nodes,
        (
            Step(0, code=21, says=("INCOMPLETE", "`list` nodes")),
            Step(1, says=("ok",)),
            Step(2, code=0, says=("nodes",)),
            Step(3, says=(NONE_HELD,), first=they_grant_the_role),
        ),
    ),
    Case(
        "doctor-failed",
        may_not_read_nodes,
        (
            Step(0, code=22, says=("permissions", "lease.duration")),
            Step(1),
            Step(2, says=("0 failed",), first=they_grant_the_role),
        ),
    ),
    Case(
        "unexpected",
        nothing_is_held,
        (Step(0, says=(NONE_HELD,)), Step(1, says=("fencectl 0.",)), Step(2, says=(NONE_HELD,))),
    ),
]


def blocks_of(markdown: str) -> list[str]:
    return [part.text for part in parts_of(markdown) if isinstance(part, Block)]


WRITTEN = {path.stem: blocks_of(path.read_text()) for path in sorted((ROOT / "runbooks").glob("*.md"))}


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cluster: Cluster = request.getfixturevalue("sandbox_cluster" if request.param == "sandbox" else "real")
    if cluster.name == "real":
        cluster.wipe(everything=True)
    made = World(cluster, tmp_path)
    yield made
    made.stack.close()
    for running in made.started:
        if running.process.poll() is None:
            running.kill()


def run_case(case: Case, world: World) -> int:
    """Bring the state about, print the runbook, and run the blocks as they stand there."""
    case.state(world)
    code, text = world.shell.run(f"fencectl runbook {case.book} --context prod")
    assert code == 0, text
    blocks = blocks_of(text)
    assert len(blocks) == len(WRITTEN[case.book])
    for step in case.steps:
        block = blocks[step.block]
        assert re.search(r"\{[a-z-]+\}", block) is None, f"not filled in:\n{text}"
        step.first(world)
        code, said = world.shell.run(block, answers=step.answers)
        assert code == step.code, f"{block}ended with {code}:\n{said}"
        for words in (*step.says, *(step.on_real if world.cluster.name == "real" else ())):
            assert words in said, f"{block}did not say {words!r}:\n{said}"
    return len(case.steps)


@pytest.mark.parametrize("world", ["sandbox"], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.book}-{case.name}".rstrip("-"))
def test_commands_of_a_runbook_do_what_it_says(
    case: Case, world: World, record_property: Callable[[str, object], None]
) -> None:
    """In the state that it describes, filled in for that cluster, in order."""
    record_property("runbook_blocks", " ".join(f"{case.book}:{step.block}" for step in case.steps))
    assert run_case(case, world) == len(case.steps)


@pytest.mark.real
@pytest.mark.parametrize("world", ["real"], indirect=True)
@pytest.mark.parametrize("case", [case for case in CASES if case.real], ids=lambda case: case.book)
def test_commands_of_a_runbook_do_what_it_says_on_a_real_server(case: Case, world: World) -> None:
    """The same, where nothing is played."""
    assert run_case(case, world) == len(case.steps)


def test_every_block_of_every_runbook_is_run() -> None:
    """A command that nobody ran is a guess, and this is read at three in the morning."""
    run = {(case.book, step.block) for case in CASES for step in case.steps}
    written = {(name, number) for name, blocks in WRITTEN.items() for number in range(len(blocks))}
    assert run == written
    assert {case.book for case in CASES} == {book.name for book in RUNBOOKS} - {"exit-codes"}
