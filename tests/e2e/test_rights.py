"""
Each command under its printed role without one right: the right is named, and nothing is half done.

The cells are the rights of `core/rights`, so that a new one joins by itself: what a command is not said to do without
must be noticed by it. What it does without is taken away all at once, and it still works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencectl.core.profiles import FENCECTL
from fencectl.core.rights import Role, documents_for, rules_for
from tests.support.clusters import Cluster, ensure_namespace, grant, make_kustomization, make_node, path_of
from tests.support.deploys import RECORD_PATH
from tests.support.fencing import killed_chain, state
from tests.support.github import LoopbackGitHub
from tests.support.program import Ran, run_program

USER = "user-9"
RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
Right = tuple[str, str]


def rights_of(role: Role) -> set[Right]:
    """Every verb on every resource that the role names, as it is printed."""
    return {
        (verb, resource)
        for document in documents_for(role, FENCECTL)
        for rule in document["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def seldom(role: Role) -> set[Right]:
    """What is needed only now and then, as its rule says: never the reason why a command stops."""
    pairs = {True: set[Right](), False: set[Right]()}
    for rule in rules_for(role, FENCECTL):
        pairs[rule.seldom] |= {(verb, resource) for resource in rule.resources for verb in rule.verbs}
    return pairs[True] - pairs[False]


def watches(role: Role) -> set[Right]:
    """What only `fences --watch` uses: it falls back to polls."""
    return {right for right in rights_of(role) if right[0] == "watch"} | {("list", "configmaps")}


@dataclass(frozen=True)
class Command:
    """A command, the role that is printed for it, what it does without, and the state that it is run in."""

    role: Role
    arguments: tuple[str, ...]
    without: frozenset[Right]
    made: Callable[[Cluster], list[str]]
    module: str = "fencectl"

    @property
    def needs(self) -> set[Right]:
        return rights_of(self.role) - seldom(self.role) - watches(self.role) - self.without


def killed(cluster: Cluster) -> list[str]:
    return list(killed_chain(cluster, duration_s=1))


def quiet(cluster: Cluster) -> list[str]:
    if cluster.name == "sandbox":
        cluster.sandbox.flux.automatic()
    return [path_of(make_kustomization(cluster, "apps")), path_of(make_node(cluster, "worker-2"))]


def nothing(_: Cluster) -> list[str]:
    return []


def deployed(cluster: Cluster) -> list[str]:
    """A deploy of the administrator's, which has left a recovery point."""
    quiet(cluster)
    kubeconfig = cluster.kubeconfig_file(context="prod")
    manifest = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"v": "%s"}}'
    for value in ("1", "2"):
        done = run_program(
            "deploy",
            "-n",
            "default",
            "-f",
            "-",
            kubeconfig=kubeconfig,
            cwd=kubeconfig.parent,
            stdin=manifest % value,
        )
        assert done.code == 0, done.text
    return ["/api/v1/namespaces/default/configmaps/app", RECORD_PATH]


# What is put back is not fencectl's: who runs it has these rights for himself.
OWN: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]}
FENCED = ("--suspend", "kustomization/flux-system/apps", "--node", "worker-2", "--drain-timeout", "0s")
DRAINS = frozenset({("list", "pods"), ("create", "pods/eviction"), ("get", "daemonsets")})
COMMANDS = {
    "fences": Command(Role.REPORT, ("fences", "--no-commands"), frozenset({("get", "nodes"), ("get", "*")}), killed),
    "history": Command(Role.REPORT, ("history",), frozenset(rights_of(Role.REPORT) - {("get", "configmaps")}), nothing),
    "recover": Command(
        Role.RECOVER, ("recover", "--yes"), frozenset({("create", "configmaps"), ("patch", "configmaps")}), killed,
        module="tests.support.impatient",
    ),
    "hold": Command(
        Role.RECOVER, ("hold", "place", "incident", "--reason", "x"),
        frozenset(rights_of(Role.RECOVER) - {("get", "configmaps"), ("create", "configmaps")}), nothing,
    ),
    "deploy": Command(Role.DEPLOY, ("deploy", *FENCED, "--", "true"), DRAINS, quiet),
    "deploy-that-drains": Command(
        Role.DEPLOY, ("deploy", *FENCED, "--node-command", "true", "--", "true"), frozenset(rights_of(Role.DEPLOY) - DRAINS), quiet,
    ),
}  # fmt: skip
COMMANDS["rollback"] = Command(
    Role.DEPLOY,
    ("rollback", "--yes"),
    frozenset(rights_of(Role.DEPLOY) - {("patch", "leases"), ("get", "secrets"), ("patch", "configmaps")}),
    deployed,
)
CELLS = [(name, right) for name, command in COMMANDS.items() for right in sorted(command.needs)]


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


def give(cluster: Cluster, role: Role, missing: set[Right]) -> None:
    """Bind the role as it is printed, but for these rights."""
    for document in documents_for(role, FENCECTL):
        rules: list[dict[str, Any]] = []
        for rule in document["rules"]:
            for resource in rule["resources"]:
                verbs = [verb for verb in rule["verbs"] if (verb, resource) not in missing]
                rules += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
        grant(cluster, USER, *rules, namespace=document["metadata"].get("namespace"))


def run(cluster: Cluster, folder: Path, command: Command, github: LoopbackGitHub) -> Ran:
    kubeconfig = cluster.kubeconfig_file(USER, context="prod")
    return run_program(
        *command.arguments, kubeconfig=kubeconfig, cwd=folder, module=command.module, env=github.env()
    )


def assert_named(cluster: Cluster, folder: Path, command: Command, right: Right, github: LoopbackGitHub) -> None:
    ensure_namespace(cluster, "flux-system")
    paths = command.made(cluster)
    give(cluster, command.role, {right})
    grant(cluster, USER, OWN, namespace="default")
    before = state(cluster, *paths)
    lease = state(cluster, *_leases(cluster))
    ran = run(cluster, folder, command, github)
    assert ran.code == 21, ran.text
    said = " ".join(ran.text.split())
    verb, resource = right
    plural = "kustomizations" if resource == "*" else resource
    named = (f"`{verb}`", f"cannot {verb}", f"may not `{verb}`")
    assert any(text in said for text in named), said
    assert plural.partition("/")[0] in said or resource == "*", said
    assert state(cluster, *paths) == before
    assert state(cluster, *_leases(cluster)) == lease
    assert RECORD_PATH in paths or cluster.request("GET", RECORD_PATH).status == 404


def _leases(cluster: Cluster) -> list[str]:
    base = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases"
    return [f"{base}/{item['metadata']['name']}" for item in cluster.get(base)["items"]]


@pytest.mark.parametrize(("name", "right"), CELLS, ids=[f"{name}-{'-'.join(right)}" for name, right in CELLS])
def test_right_that_is_missing_is_named_before_anything_is_changed(
    sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, name: str, right: Right
) -> None:
    """Everything is as before, the lease and the record too."""
    assert_named(sandbox_cluster, tmp_path, COMMANDS[name], right, github)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "right"),
    [("fences", ("list", "nodes")), ("recover", ("get", "*")), ("deploy", ("patch", "nodes"))],
    ids=["fences", "recover", "deploy"],
)
def test_right_that_is_missing_on_a_real_server_is_named_before_anything_is_changed(
    real: Cluster, github: LoopbackGitHub, tmp_path: Path, name: str, right: Right
) -> None:
    """RBAC says it in its own words there."""
    real.wipe(everything=True)
    assert_named(real, tmp_path, COMMANDS[name], right, github)


@pytest.mark.parametrize("name", ["fences", "history", "recover", "hold", "deploy"])
def test_command_works_without_everything_that_it_is_said_to_do_without(
    sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, name: str
) -> None:
    """So the list of what is needed is no longer than it must be."""
    command = COMMANDS[name]
    ensure_namespace(sandbox_cluster, "flux-system")
    command.made(sandbox_cluster)
    give(sandbox_cluster, command.role, rights_of(command.role) - command.needs)
    ran = run(sandbox_cluster, tmp_path, command, github)
    assert ran.code == 0, ran.text


def test_every_right_of_a_role_is_needed_by_a_command_of_it() -> None:
    """Or its rule says that it is seldom needed, or only a watch uses it."""
    for role in Role:
        used: set[Right] = set()
        for command in COMMANDS.values():
            used |= command.needs
        used |= {("patch", "configmaps")}  # a second hold, and each record after the first
        assert rights_of(role) - seldom(role) - watches(role) <= used
