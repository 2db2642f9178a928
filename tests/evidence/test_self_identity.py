"""
Who we are, in GitHub Actions, in a pod and on a workstation.

Aspects: the three spellings, each read back · what an environment may lie about · the revision's chain · the pod's
name, uid and container · secrets in the command · the journal that it all goes into.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fencectl import __version__
from fencectl.core.identity import HolderKind, parse_holder
from fencectl.core.journal import Journal, Phase, parse_journal
from fencectl.evidence.redact import redact_command
from fencectl.evidence.self_identity import SERVICE_ACCOUNT, SelfIdentity, describe_self
from tests.evidence.machines import BOOT_ID, CONTAINER_NAMESPACE, MACHINE_ID, Tree
from tests.support.objects import NOW

SHA = "4f2a91c07be3d855aa01bb02cc03dd04ee05ff06"
UID = "7d6c1a52-3f0e-4b8b-9a55-2f8f7a1c9e01"
OTHER_UID = "00000000-3f0e-4b8b-9a55-2f8f7a1c9e01"
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "18093344127",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_REPOSITORY": "acme/platform",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_SHA": SHA,
    "GITHUB_WORKFLOW": "Deploy <prod>",
    "GITHUB_JOB": "deploy",
    "GITHUB_ACTOR": "octo-cat[bot]",
    "RUNNER_NAME": "GitHub Actions 12",
    "RUNNER_ENVIRONMENT": "github-hosted",
    "FENCECTL_JOB_ID": "51234567890",
}
IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "deployer-0"}
KEYS = {
    "machine_id", "boot_id", "pid_namespace", "pid", "pid_started", "payload_group", "host", "pod_namespace",
    "pod_name", "pod_uid", "container", "runner_name", "runner_environment", "workflow", "job_key", "actor",
    "revision", "command", "started_at", "version", "api_url",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def describe(tree: Tree, environ: dict[str, str], **options: Any) -> SelfIdentity:
    given: dict[str, Any] = {"command": ["fencectl", "deploy"], "at": NOW, "nonce": "9c41e07a"}
    return describe_self(environ, tree.machine(), folder=tree.root, **(given | options))


def in_pod(tree: Tree, *, mounts: bool = True, hosts: str = "# Kubernetes-managed hosts file.\n") -> None:
    tree.write(f"{SERVICE_ACCOUNT}/namespace", "ci")
    tree.write("etc/hosts", hosts)
    tree.namespace(CONTAINER_NAMESPACE)
    if mounts:
        tree.write(
            "proc/900/mountinfo",
            "601 594 8:1 / / rw - ext4 /dev/sda1 rw\n"
            f"612 601 8:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
            f"613 601 8:1 /var/lib/kubelet/pods/{UID}/containers/runner/1f2e3d4c /dev/termination-log rw - ext4 x rw\n",
        )
        tree.link("proc/self", "900")


def test_job_of_github_actions_is_named_by_its_run(tree: Tree) -> None:
    """With run, attempt and job, and everything that evidence asks for later."""
    own = describe(tree, GITHUB)
    assert own.identity == "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"
    assert (own.repository, own.server, own.job, own.job_verified) == (
        "acme/platform",
        "https://github.com",
        51234567890,
        False,
    )
    assert own.runner == "github-hosted"
    assert own.warnings == ()
    wanted = {
        "runner_name": "GitHub Actions 12", "runner_environment": "github-hosted", "workflow": "Deploy <prod>",
        "job_key": "deploy", "actor": "octo-cat[bot]", "revision": SHA, "api_url": "https://api.github.com",
    }  # fmt: skip
    assert {key: own.details[key] for key in wanted} == wanted


def test_details_have_exactly_the_agreed_keys(tree: Tree) -> None:
    """Evidence of other versions reads them by these names."""
    own = describe(tree, {})
    assert set(own.details) == KEYS
    wanted = {
        "machine_id": MACHINE_ID, "boot_id": BOOT_ID, "pid_namespace": "pid:[4026531836]", "pid": 900,
        "pid_started": 50, "payload_group": None, "host": "build-7", "started_at": "2026-11-30T02:47:31Z",
        "version": __version__, "command": "fencectl deploy", "api_url": None, "runner_name": None,
    }  # fmt: skip
    assert {key: own.details[key] for key in wanted} == wanted


def test_details_survive_the_journal(tree: Tree) -> None:
    """Written as ASCII and read back they are the same."""
    own = describe(tree, GITHUB | {"GITHUB_ACTOR": "é <b>&"})
    written = Journal(own.identity, "u", 1, 0, NOW, Phase.HELD, details=own.details)
    read = parse_journal(written.to_text())
    assert isinstance(read, Journal)
    assert read.details == own.details


@pytest.mark.parametrize(
    ("environ", "kind"), [(GITHUB, HolderKind.GITHUB), (IN_POD, HolderKind.POD), ({}, HolderKind.LOCAL)]
)
def test_every_identity_is_read_back_as_what_it_is(tree: Tree, environ: dict[str, str], kind: HolderKind) -> None:
    """What is written must be found again by whoever looks for the holder."""
    in_pod(tree)
    holder = parse_holder(describe(tree, environ).identity)
    assert holder.kind is kind
    named = (
        holder.run,
        holder.attempt,
        holder.job,
        holder.host,
        holder.pid,
        holder.pod_namespace,
        holder.pod_name,
    )
    assert named in (
        (18093344127, 2, 51234567890, None, None, None, None),
        (None, None, None, None, None, "ci", "deployer-0"),
        (None, None, None, "build-7", 900, None, None),
    )


def test_two_processes_never_have_the_same_identity(tree: Tree) -> None:
    """The nonce is random, so that equal places and times never share a fence."""
    assert len({describe(tree, GITHUB, nonce=None).identity for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_RUN_ID", "12; rm"),
        ("GITHUB_RUN_ID", "0"),
        ("GITHUB_RUN_ID", "١٢"),
        ("GITHUB_RUN_ID", "9" * 30),
        ("GITHUB_RUN_ID", ""),
        ("GITHUB_RUN_ATTEMPT", "-1"),
        ("GITHUB_RUN_ATTEMPT", "2\n"),
        ("GITHUB_RUN_ATTEMPT", ""),
    ],
)
def test_run_that_cannot_be_is_ignored_and_said(tree: Tree, name: str, value: str) -> None:
    """Then the process is named, which can be proven on its machine at least."""
    own = describe(tree, GITHUB | {name: value})
    assert parse_holder(own.identity).kind is HolderKind.LOCAL
    assert (own.repository, own.job, own.runner) == (None, None, None)
    assert "GITHUB_ACTIONS is true, but the run and its attempt are not known; it is ignored" in own.warnings


@pytest.mark.parametrize("said", ["", "false", "TRUE", "1"])
def test_run_outside_of_actions_is_not_believed(tree: Tree, said: str) -> None:
    """Variables that were copied to a workstation make no job of it."""
    own = describe(tree, GITHUB | {"GITHUB_ACTIONS": said})
    assert parse_holder(own.identity).kind is HolderKind.LOCAL
    assert own.warnings == ()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("FENCECTL_JOB_ID", "${{ job.check_run_id }}", "job"),
        ("FENCECTL_JOB_ID", "12x", "job"),
        ("GITHUB_REPOSITORY", "acme/platform/../x", "repository"),
        ("GITHUB_REPOSITORY", "acme", "repository"),
        ("GITHUB_SERVER_URL", "https://u:p@github.com", "server"),
        ("GITHUB_SERVER_URL", "javascript:x", "server"),
        ("RUNNER_ENVIRONMENT", "my-own", "runner"),
    ],
)
def test_value_that_cannot_be_is_left_out_and_said(tree: Tree, name: str, value: str, field: str) -> None:
    """It is never a part of an identity or a journal."""
    own = describe(tree, GITHUB | {name: value})
    assert getattr(own, field) is None
    assert len(own.warnings) == 1
    assert own.warnings[0].startswith(f"{name} is not ")
    assert value not in own.warnings[0]
    assert parse_holder(own.identity).kind is HolderKind.GITHUB


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("GITHUB_WORKFLOW", "workflow"),
        ("GITHUB_JOB", "job_key"),
        ("GITHUB_ACTOR", "actor"),
        ("RUNNER_NAME", "runner_name"),
        ("GITHUB_API_URL", "api_url"),
    ],
)
@pytest.mark.parametrize("value", ["a\x1b[31mb", "a\nb", "x" * 201, "\u2028"])
def test_text_that_is_no_line_is_left_out_and_said(tree: Tree, name: str, key: str, value: str) -> None:
    """Control characters, line ends and books stay out of journals."""
    own = describe(tree, GITHUB | {name: value})
    assert own.details[key] is None
    assert [warning.split()[0] for warning in own.warnings] == [name]


def test_job_found_otherwise_counts_and_its_check_is_recorded(tree: Tree) -> None:
    """A job that GitHub has confirmed is written as verified."""
    own = describe(tree, {k: v for k, v in GITHUB.items() if k != "FENCECTL_JOB_ID"}, job=7, job_verified=True)
    assert own.identity == "4f2a91c07be3d855-gh18093344127.2-j7-9c41e07a"
    assert (own.job, own.job_verified) == (7, True)
    without = describe(tree, {k: v for k, v in GITHUB.items() if k != "FENCECTL_JOB_ID"})
    assert without.identity == "4f2a91c07be3d855-gh18093344127.2-9c41e07a"
    assert (without.job, without.job_verified) == (None, None)


# ----------------------------------------------------------------------------------------------- the revision


def git(folder: Path, *arguments: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    return subprocess.run(
        ["git", *names, *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_revision_is_the_commit_else_the_checkout_else_the_digest_else_zeros(tree: Tree, tmp_path: Path) -> None:
    """Each only where there is none before it."""
    path = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    digest = f"sha256:{'c' * 64}"
    assert describe(tree, path).details["revision"] == "0" * 40
    assert describe(tree, path).identity.startswith(f"{'0' * 16}-local-")
    assert describe(tree, path, digest=digest).details["revision"] == "c" * 64
    git(tree.root, "init", "--quiet")
    assert describe(tree, path, digest=digest).details["revision"] == "c" * 64
    git(tree.root, "commit", "--quiet", "--allow-empty", "-m", "x")
    head = git(tree.root, "rev-parse", "HEAD")
    assert describe(tree, path, digest=digest).details["revision"] == head
    assert describe(tree, path | {"GITHUB_SHA": SHA}, digest=digest).details["revision"] == SHA


@pytest.mark.parametrize("sha", ["main", "4f2a91c", "4f2a91c0 7be3d855", SHA.upper()])
def test_commit_that_is_none_is_ignored_and_said(tree: Tree, sha: str) -> None:
    """A branch is no revision."""
    own = describe(tree, {"GITHUB_SHA": sha, "PATH": "/nonexistent"})
    assert own.details["revision"] == "0" * 40
    assert own.warnings == ("GITHUB_SHA is not a commit; it is ignored",)


def test_git_that_hangs_or_fails_is_no_revision(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deploy does not wait for it."""
    monkeypatch.setattr("fencectl.evidence.self_identity.GIT_TIMEOUT_S", 0.2)
    for script in ("exec sleep 60", "echo fatal >&2; exit 128", f"echo {SHA[:-1]}", "printf '\\377'"):
        tree.write("bin/git", f"#!/bin/sh\n{script}\n")
        (tree.root / "bin/git").chmod(0o755)
        own = describe(tree, {"PATH": f"{tree.root}/bin:{os.environ['PATH']}"})
        assert own.details["revision"] == "0" * 40


# ---------------------------------------------------------------------------------------------------- the pod


def pod_of(own: SelfIdentity) -> tuple[Any, ...]:
    return tuple(own.details[key] for key in ("pod_namespace", "pod_name", "pod_uid", "container"))


def test_pod_knows_its_uid_and_container_from_the_kubelets_mounts(tree: Tree) -> None:
    """So nobody has to pass them in for the container's end to be a proof."""
    in_pod(tree)
    own = describe(tree, IN_POD)
    assert own.identity == "0000000000000000-pod-ci.deployer-0-9c41e07a"
    assert pod_of(own) == ("ci", "deployer-0", UID, "runner")
    assert own.warnings == ()


@pytest.mark.parametrize("names", [("FENCECTL_POD_UID", "FENCECTL_POD_NAME"), ("POD_UID", "POD_NAME")])
def test_pod_is_told_by_its_environment_where_there_are_no_such_mounts(tree: Tree, names: tuple[str, str]) -> None:
    """The downward API's way."""
    in_pod(tree, mounts=False)
    own = describe(tree, IN_POD | {names[0]: UID, names[1]: "deployer-1", "FENCECTL_CONTAINER": "deploy"})
    assert pod_of(own) == ("ci", "deployer-1", UID, "deploy")


def test_pods_environment_that_contradicts_the_kubelet_is_ignored_and_said(tree: Tree) -> None:
    """Another pod's uid, or another container's end, would make this one look dead."""
    in_pod(tree)
    own = describe(tree, IN_POD | {"POD_UID": OTHER_UID, "FENCECTL_CONTAINER": "sidecar"})
    assert pod_of(own) == ("ci", "deployer-0", UID, "runner")
    assert len(own.warnings) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("POD_UID", "$(POD_UID)"), ("FENCECTL_CONTAINER", "a/b"), ("POD_NAME", "A_b")]
)
def test_pods_environment_that_cannot_be_is_ignored_and_said(tree: Tree, name: str, value: str) -> None:
    """It would become a part of a path."""
    in_pod(tree, mounts=False)
    own = describe(tree, IN_POD | {name: value})
    assert pod_of(own) == ("ci", "deployer-0", None, None)
    assert [warning.split()[0] for warning in own.warnings] == [name]


def test_pod_on_its_nodes_network_does_not_take_the_nodes_name(tree: Tree) -> None:
    """A pod of the node's name was never there, and would look vanished at once."""
    in_pod(tree, hosts="# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n")
    own = describe(tree, IN_POD | {"HOSTNAME": "worker-2"})
    assert parse_holder(own.identity).kind is HolderKind.LOCAL
    assert pod_of(own) == ("ci", None, UID, "runner")
    assert "FENCECTL_POD_NAME" in own.warnings[0]
    named = describe(tree, IN_POD | {"HOSTNAME": "worker-2", "FENCECTL_POD_NAME": "deployer-0"})
    assert parse_holder(named.identity).pod_name == "deployer-0"


@pytest.mark.parametrize("missing", ["service account", "service", "namespace that is one"])
def test_what_is_not_a_pod_is_local(tree: Tree, missing: str) -> None:
    """Both must be there: the service account's folder and the API server's address."""
    in_pod(tree)
    if missing != "service":
        tree.write(f"{SERVICE_ACCOUNT}/namespace", "" if missing == "service account" else "../x")
    own = describe(tree, {} if missing == "service" else IN_POD)
    assert parse_holder(own.identity).kind is HolderKind.LOCAL
    assert pod_of(own) == (None, None, None, None)


def test_runner_in_a_pod_is_named_by_its_run_and_records_its_pod(tree: Tree) -> None:
    """So both GitHub and the pod can be asked."""
    in_pod(tree)
    own = describe(tree, GITHUB | IN_POD)
    assert parse_holder(own.identity).kind is HolderKind.GITHUB
    assert pod_of(own) == ("ci", "deployer-0", UID, "runner")


def test_process_of_another_proc_records_no_start(tree: Tree) -> None:
    """Where the process cannot be seen, nothing is recorded that would not fit later."""
    (tree.root / "proc/900/stat").unlink()
    assert describe(tree, {}).details["pid_started"] is None


# ------------------------------------------------------------------------------------------------ the command

SECRET = "s3cr3t-canary-7f41"
LONG_SECRET = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIz"


@pytest.mark.parametrize(
    "arguments",
    [
        ["deploy", "--token", SECRET],
        ["deploy", f"--token={SECRET}"],
        ["deploy", "--db-password", SECRET, "--dry-run"],
        ["deploy", "--", "env", f"DB_PASSWORD={SECRET}", "./x"],
        ["deploy", "--", "sh", "-c", f"API_KEY='{SECRET}' ./x"],
        ["deploy", "--", "sh", "-c", f"export TOKEN={SECRET}; ./x"],
        ["deploy", "--", "curl", "-H", f"Authorization: Bearer {SECRET}", "https://example.com"],
        ["deploy", "--", "curl", "-H", f"X: Basic {SECRET}"],
        ["deploy", "--", "git", "clone", f"https://user:{SECRET}@example.com/x"],
        ["deploy", "--", "echo", f'{{"client_secret": "{SECRET}"}}'],
        ["deploy", "--", "echo", f"-----BEGIN PRIVATE KEY-----\n{SECRET}"],
        ["deploy", "--", "./x", SECRET],
        ["deploy", "--", "./x", f"a{SECRET}b"],
        ["deploy", "--", "./x", "x" * 290, f"--token={SECRET}"],
    ],
)
def test_command_is_recorded_without_its_secrets(arguments: list[str]) -> None:
    """A journal is read by everybody who may read the cluster."""
    line = redact_command(["fencectl", *arguments], {"SOME_TOKEN": SECRET})
    assert SECRET not in line
    assert line.startswith("fencectl deploy")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token", SECRET],
        [f"--password={SECRET}"],
        ["-H", f"Bearer {SECRET}"],
        ["git", "clone", f"https://user:{SECRET}@example.com/x"],
        ["sh", "-c", f"curl https://{SECRET}@example.com/x"],
    ],
)
def test_secret_is_found_by_its_place_alone(arguments: list[str]) -> None:
    """Where the environment does not hold it."""
    assert SECRET not in redact_command(arguments, {})


@pytest.mark.parametrize(
    "secret",
    [
        f"ghp_{'a1B2' * 9}", f"github_pat_{'a1B2' * 9}", "AKIAIOSFODNN7EXAMPLE", "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", LONG_SECRET,
    ],
)  # fmt: skip
def test_secret_is_found_by_its_shape_alone(secret: str) -> None:
    """Wherever it stands."""
    assert secret not in redact_command(["fencectl", "deploy", "--", "./x", f"y:{secret}"], {})


def test_harmless_command_is_recorded_as_it_was_typed() -> None:
    """Quoted, so that it can be read and typed again; digests and commits stay."""
    arguments = ["fencectl", "deploy", "--lease", "a/b", "--", "./deploy it.sh", f"app@sha256:{'ab12' * 16}", SHA]
    assert redact_command(arguments, {"HOME": "/root"}) == (
        f"fencectl deploy --lease a/b -- './deploy it.sh' app@sha256:{'ab12' * 16} {SHA}"
    )


def test_long_or_hostile_command_is_cut_to_one_printable_line() -> None:
    """It ends up in an annotation and on terminals."""
    line = redact_command(["fencectl", "a\nb\x1b[2J", "y " * 400], {})
    assert len(line) == 300
    assert line.isprintable()
    assert line.endswith("...")
