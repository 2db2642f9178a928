"""Aspects: finding the config · whose it may be · which clusters · flag over config over default · origins."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from fencectl.commands import common
from fencectl.commands.common import Effective, resolve
from fencectl.commands.options import CommonOptions
from fencectl.core.errors import UsageError
from fencectl.core.profiles import FENCECTL, GHCR_BRIDGE

HEAD = "apiVersion: fencectl.dev/v1\nkind: Config\n"
TWO = f"""{HEAD}targets:
  prod: {{context: prod-admin, print_context: prod, lease: {{name: prod-deploy}}}}
  dev: {{github: {{repository: acme/dev}}}}
lease: {{namespace: ops}}
github: {{repository: acme/platform}}
"""


def settled(
    folder: Path, options: CommonOptions | None = None, environ: Mapping[str, str] | None = None
) -> Effective:
    return resolve(options or CommonOptions(), folder=folder, environ=environ or {})


def refusal(folder: Path, options: CommonOptions | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        settled(folder, options)
    return caught.value


def test_without_config_the_current_context_is_read_with_defaults(tmp_path: Path) -> None:
    """Nothing to set up before the first `fencectl fences`."""
    effective = settled(tmp_path)
    [only] = effective.targets
    assert effective.config is None
    assert (only.context, only.print_context, only.profile, only.repository) == (None, None, FENCECTL, None)
    assert set(only.origins.values()) == {"default"}
    assert effective.one_target("release") is only


def test_config_is_found_upwards_and_the_nearest_counts(tmp_path: Path) -> None:
    """As git finds its own."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "fencectl.yaml").write_text(f"{HEAD}lease: {{name: far}}\n")
    assert settled(below).targets[0].profile.lease == ("flux-system", "far")
    assert settled(below).targets[0].origins["lease.name"] == "../../fencectl.yaml:3"
    (tmp_path / "a" / "fencectl.yaml").write_text(f"{HEAD}lease: {{name: near}}\n")
    assert settled(below).targets[0].profile.lease == ("flux-system", "near")


def test_named_config_is_read_and_no_other(tmp_path: Path) -> None:
    """Also where one lies in the folder, and it is called as the user called it."""
    (tmp_path / "fencectl.yaml").write_text("not: ours\n")
    (tmp_path / "other.yaml").write_text(f"{HEAD}lease: {{name: other}}\n")
    effective = settled(tmp_path, CommonOptions(config="other.yaml", origins={"config": "--config"}))
    assert effective.targets[0].origins["lease.name"] == "other.yaml:3"
    assert effective.targets[0].origins["config"] == "--config"


@pytest.mark.parametrize("name", ["fencectl.yml", ".fencectl.yaml"])
def test_config_of_nearly_the_right_name_is_not_passed_over(name: str, tmp_path: Path) -> None:
    """A file that is silently not read is a fence that is silently not placed."""
    (tmp_path / name).write_text(HEAD)
    error = refusal(tmp_path)
    assert error.sentence == f"{name} is not read"
    assert error.hint == f"name it fencectl.yaml, or give `--config {name}`. Nothing was read or changed"


def test_config_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    """Missing, a folder, a FIFO that nobody writes to, a broken link, not UTF-8, far too long."""
    assert refusal(tmp_path, CommonOptions(config="none.yaml")).sentence == "none.yaml: cannot be read"
    assert refusal(tmp_path, CommonOptions(config="none.yaml")).reason == "No such file or directory"
    path = tmp_path / "fencectl.yaml"
    path.mkdir()
    assert refusal(tmp_path).sentence in {"fencectl.yaml: cannot be read", "fencectl.yaml: not a file"}
    path.rmdir()
    os.mkfifo(path)
    assert refusal(tmp_path).sentence == "fencectl.yaml: not a file"
    path.unlink()
    path.symlink_to("nowhere")
    assert refusal(tmp_path).reason == "No such file or directory"
    path.unlink()
    path.write_bytes(HEAD.encode() + b"# caf\xe9\n")
    assert refusal(tmp_path).sentence == "fencectl.yaml:3: not valid UTF-8"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    assert refusal(tmp_path).sentence.startswith("fencectl.yaml: too long")


def test_byte_order_mark_of_an_editor_is_no_error(tmp_path: Path) -> None:
    """Some editors on Windows write one."""
    (tmp_path / "fencectl.yaml").write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert settled(tmp_path).config is not None


@pytest.mark.parametrize(
    ("owner", "folder_owner", "trusted"),
    [(0, 1, True), (1000, 1, True), (1, 1, True), (2, 1, False)],
)
def test_found_config_of_somebody_else_is_refused(
    owner: int, folder_owner: int, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, root's or of the checkout's owner, or else a config in /tmp could pick the cluster."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    real_stat = Path.stat

    def owned_by(found: os.stat_result, uid: int) -> os.stat_result:
        return os.stat_result((*found[: stat.ST_UID], uid, *found[stat.ST_UID + 1 :]))

    monkeypatch.setattr(Path, "stat", lambda self, **kw: owned_by(real_stat(self, **kw), folder_owner))
    status = owned_by(os.stat(tmp_path), owner)  # noqa: PTH116  Path.stat is the one that is stood in for
    if trusted:
        common._refuse_planted(status, start=tmp_path, shown="../fencectl.yaml")
        return
    with pytest.raises(UsageError) as caught:
        common._refuse_planted(status, start=tmp_path, shown="../fencectl.yaml")
    assert caught.value.sentence == f"../fencectl.yaml belongs to another user (uid {owner})"
    assert caught.value.hint == "if you trust it: `--config ../fencectl.yaml`. Nothing was read or changed"


def test_targets_of_the_config_are_read_when_no_context_is_given(tmp_path: Path) -> None:
    """Each with its own settings, repository and origins."""
    (tmp_path / "fencectl.yaml").write_text(TWO)
    prod, dev = settled(tmp_path, environ={"GITHUB_REPOSITORY": "ambient/one"}).targets
    assert (prod.context, prod.print_context, prod.profile.lease) == ("prod-admin", "prod", ("ops", "prod-deploy"))
    assert (dev.context, dev.print_context, dev.profile.lease) == ("dev", "dev", ("ops", "fencectl-deploy"))
    assert (prod.repository, dev.repository) == ("acme/platform", "acme/dev")
    assert prod.origins["context"] == "fencectl.yaml:4"
    assert prod.origins["lease.name"] == "fencectl.yaml:4"
    assert prod.origins["lease.namespace"] == "fencectl.yaml:6"
    assert dev.origins["context"] == "fencectl.yaml:5"
    assert dev.origins["github.repository"] == "fencectl.yaml:5"


@pytest.mark.parametrize(
    ("current", "context", "target"),
    [("prod-admin", "prod-admin", "prod"), ("dev", "dev", "dev"), ("elsewhere", "elsewhere", None)],
)
def test_command_of_a_deploy_is_about_the_target_of_that_deploy(
    tmp_path: Path, current: str, context: str, target: str | None
) -> None:
    """The config has several, and its private kubeconfig the one that is fenced; whoever names another gets that."""
    (tmp_path / "fencectl.yaml").write_text(TWO)
    (tmp_path / "private").write_text(f"apiVersion: v1\nkind: Config\ncurrent-context: {current}\n")
    inside = {"KUBECONFIG": str(tmp_path / "private"), "FENCECTL_HOLDER": "x"}
    (only,) = settled(tmp_path, environ=inside).targets
    assert (only.context, only.target.name if only.target else None) == (context, target)
    named = settled(tmp_path, CommonOptions(contexts=("dev", "prod")), environ=inside).targets
    assert [one.context for one in named] == ["dev", "prod"]
    assert len(settled(tmp_path, environ=inside | {"FENCECTL_HOLDER": ""}).targets) == 2


def test_verb_for_one_cluster_asks_which_of_several(tmp_path: Path) -> None:
    """It does not take the first."""
    (tmp_path / "fencectl.yaml").write_text(TWO)
    with pytest.raises(UsageError) as caught:
        settled(tmp_path).one_target("release")
    assert caught.value.sentence == "release takes one cluster, and the config has 2 targets"
    assert caught.value.hint == "pick one with `--context`: prod-admin, dev. Nothing was read or changed"


@pytest.mark.parametrize(
    ("given", "context", "target", "printed"),
    [
        ("prod-admin", "prod-admin", "prod", "prod"),  # how this machine calls it
        ("prod", "prod", "prod", "prod"),  # how operators do: kubectl's own meaning of the word wins
        ("dev", "dev", "dev", "dev"),
        ("elsewhere", "elsewhere", None, None),
    ],
)
def test_context_is_kubectls_and_brings_its_targets_settings(
    given: str, context: str, target: str | None, printed: str | None, tmp_path: Path
) -> None:
    """`--context X` reads the cluster that `kubectl --context X` writes to."""
    (tmp_path / "fencectl.yaml").write_text(TWO)
    [only] = settled(tmp_path, CommonOptions(contexts=(given,), origins={"context": "--context"})).targets
    assert only.context == context
    assert (only.target.name if only.target else None) == target
    assert only.print_context == printed
    assert only.origins["context"] == "--context"


def test_name_of_a_target_stands_for_its_context(tmp_path: Path) -> None:
    """Where no context of any target is called so."""
    (tmp_path / "fencectl.yaml").write_text(f"{HEAD}targets: {{production: {{context: prod-admin}}}}\n")
    [only] = settled(tmp_path, CommonOptions(contexts=("production",))).targets
    assert (only.context, only.print_context) == ("prod-admin", "prod-admin")


def test_several_contexts_keep_their_order(tmp_path: Path) -> None:
    """Reports come in the order asked for."""
    (tmp_path / "fencectl.yaml").write_text(TWO)
    targets = settled(tmp_path, CommonOptions(contexts=("dev", "elsewhere", "prod-admin"))).targets
    assert [each.context for each in targets] == ["dev", "elsewhere", "prod-admin"]


def test_configured_lease_is_this_tools_own_under_every_profile(tmp_path: Path) -> None:
    """Reading another tool's fences must not look for them under our lease."""
    (tmp_path / "fencectl.yaml").write_text(f"{HEAD}lease: {{namespace: ops, name: own, discovery: configured}}\n")
    own = settled(tmp_path).targets[0].profile
    assert (own.lease, own.by_label, own.other_lease) == (("ops", "own"), False, GHCR_BRIDGE.lease)
    foreign = settled(tmp_path, CommonOptions(profile="ghcr-bridge")).targets[0].profile
    assert (foreign.lease, foreign.other_lease) == (GHCR_BRIDGE.lease, ("ops", "own"))
    assert foreign.node_keys == GHCR_BRIDGE.node_keys


def test_repository_of_the_job_is_taken_where_the_config_is_silent(tmp_path: Path) -> None:
    """In Actions nobody has to say it again."""
    [only] = settled(tmp_path, environ={"GITHUB_REPOSITORY": "acme/ci"}).targets
    assert (only.repository, only.origins["github.repository"]) == ("acme/ci", "GITHUB_REPOSITORY")
    assert settled(tmp_path, environ={"GITHUB_REPOSITORY": ""}).targets[0].repository is None


def test_options_reach_the_readers_as_given(tmp_path: Path) -> None:
    """The reader knows its own default for a time-out."""
    effective = settled(tmp_path, CommonOptions(kubeconfig="k", request_timeout_s=3))
    assert (effective.kubeconfig, effective.request_timeout_s) == ("k", 3)
    assert settled(tmp_path).request_timeout_s is None


def test_process_folder_and_environment_are_used_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a command calls it."""
    (tmp_path / "fencectl.yaml").write_text(f"{HEAD}lease: {{name: here}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/ci")
    [only] = resolve(CommonOptions()).targets
    assert (only.profile.lease[1], only.repository) == ("here", "acme/ci")
