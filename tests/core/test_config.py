"""Aspects: the whole schema · unknown, misplaced, repeated keys · wrong types · ranges · targets · merging · origins."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencectl.core.config import (
    AfterRollback,
    Certify,
    Discovery,
    Follow,
    Github,
    Lease,
    Nodes,
    Rollback,
    Suspend,
    parse_config,
)
from fencectl.core.config_yaml import ConfigError
from fencectl.core.errors import ExitCode, FencectlError

HEAD = "apiVersion: fencectl.dev/v1\nkind: Config\n"
WHOLE = f"""{HEAD}
targets:
  prod: {{context: prod-admin, print_context: prod}}
  staging:
    lease: {{name: staging-deploy}}
    suspend: []
    rollback: {{on_failure: false}}
  dev:
lease: {{namespace: flux-system, name: fencectl-deploy, duration: 45s, discovery: configured}}
suspend: [kustomization/flux-system/apps, helmrelease/monitoring/loki]
nodes: {{selector: node-role.kubernetes.io/worker, max_unavailable: 2, command: [./up.sh, "1"], timeout: 30m}}
follow: {{timeout: 1h30m}}
certify: {{canary: canary/, command: [./smoke.sh], timeout: 5m}}
rollback: {{on_failure: true, timeout: 600, after: resume}}
github: {{repository: acme/platform}}
"""


def refusal(text: str) -> tuple[str, str | None]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, path="fencectl.yaml")
    assert caught.value.exit_code is ExitCode.USAGE
    return caught.value.sentence, caught.value.hint


def test_every_key_there_is_is_read() -> None:
    """The whole schema, each value with its own type."""
    config = parse_config(WHOLE, path="fencectl.yaml")
    settings = config.settings
    assert settings.lease == Lease(
        namespace="flux-system", name="fencectl-deploy", duration_s=45, discovery=Discovery.CONFIGURED
    )
    assert settings.suspend == (
        Suspend("kustomization", "flux-system", "apps"),
        Suspend("helmrelease", "monitoring", "loki"),
    )
    assert settings.nodes == Nodes(
        selector="node-role.kubernetes.io/worker", max_unavailable=2, command=("./up.sh", "1"), timeout_s=1800
    )
    assert settings.follow == Follow(timeout_s=5400)
    assert settings.certify == Certify(canary="canary/", command=("./smoke.sh",), timeout_s=300)
    assert settings.rollback == Rollback(on_failure=True, timeout_s=600, after=AfterRollback.RESUME)
    assert settings.github == Github(repository="acme/platform")
    assert [(each.name, each.context, each.print_context) for each in config.targets] == [
        ("prod", "prod-admin", "prod"),
        ("staging", "staging", None),
        ("dev", "dev", None),
    ]


def test_config_with_nothing_but_its_head_says_nothing() -> None:
    """Every key is optional, and what is not said stays None."""
    config = parse_config(HEAD, path="fencectl.yaml")
    assert config.targets == ()
    assert config.for_target(None).lease == Lease()
    assert config.for_target(None).suspend is None


def test_target_overrides_key_by_key_and_lists_whole() -> None:
    """A target that names another lease keeps its namespace; an empty list is a list."""
    config = parse_config(WHOLE, path="fencectl.yaml")
    _, staging, dev = config.targets
    merged = config.for_target(staging)
    assert merged.lease == Lease(
        namespace="flux-system", name="staging-deploy", duration_s=45, discovery=Discovery.CONFIGURED
    )
    assert merged.suspend == ()
    assert merged.rollback == Rollback(on_failure=False, timeout_s=600, after=AfterRollback.RESUME)
    assert config.for_target(dev) == config.settings


def test_origin_is_the_line_of_the_target_and_else_of_the_top() -> None:
    """`doctor` says where each value comes from."""
    config = parse_config(WHOLE, path="fencectl.yaml")
    _, staging, _ = config.targets
    assert config.origin("lease", "name", target=staging) == "fencectl.yaml:7"
    assert config.origin("lease", "duration", target=staging) == "fencectl.yaml:11"
    assert config.origin("lease", "name") == "fencectl.yaml:11"
    assert parse_config(HEAD, path="fencectl.yaml").origin("lease", "name") is None


def test_unknown_key_names_line_target_and_nearest_key() -> None:
    """The message an operator sees for a slip of the finger."""
    text = f"{HEAD}targets:\n  prod:\n    context: prod-admin\n    # why\n    suspends: [kustomization/a/b]\n"
    assert refusal(text) == (
        "fencectl.yaml:7: unknown key `suspends` in target `prod`",
        "did you mean `suspend`? Nothing was read or changed",
    )


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("leese: {}", "unknown key `leese`", "did you mean `lease`?"),
        ("Lease: {}", "unknown key `Lease`", "did you mean `lease`?"),
        ("lease: {dur: 30s}", "unknown key `dur` in `lease`", "did you mean `duration`?"),
        ("rollback: {on-failure: true}", "unknown key `on-failure` in `rollback`", "did you mean `on_failure`?"),
        ("namespace: x", "unknown key `namespace`", "did you mean `lease.namespace`?"),
        ("targets: {a: {lease: {zzz: 1}}}", "unknown key `zzz` in `lease` of target `a`", "there are: namespace,"),
        ("github: {zzz: 1}", "unknown key `zzz` in `github`", "there are: repository."),
        ("profile: fencectl", "unknown key `profile`", "there are: apiVersion, kind,"),
    ],
)
def test_unknown_key_gets_the_nearest_hint_there_is(text: str, sentence: str, hint: str) -> None:
    """A near miss, a part of a key, the right key in the wrong place, and else the list."""
    found, hinted = refusal(f"{HEAD}{text}\n")
    assert found == f"fencectl.yaml:3: {sentence}"
    assert hinted is not None
    assert hinted.startswith(hint)
    assert hinted.endswith(" Nothing was read or changed")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lease: {name: x, name: y}", "duplicate key `name`, first on line 3"),
        ("lease: {}\nlease: {}", "duplicate key `lease`, first on line 3"),
        ("lease:", "`lease` must be a mapping, not empty"),
        ("lease: [a]", "`lease` must be a mapping, not a list"),
        ("lease: {name: no}", "`name` in `lease` must be text, and YAML reads `no` as true or false"),
        ("lease: {name: 12}", "`name` in `lease` must be text, and YAML reads `12` as a number"),
        ("lease: {name: }", "`name` in `lease` is empty"),
        ("lease: {name: ''}", "`name` in `lease` is empty"),
        ("lease: {name: Upper}", "`name` in `lease` must be a Kubernetes name, found `Upper`"),
        ("lease: {namespace: a/b}", "`namespace` in `lease` must be a Kubernetes name, found `a/b`"),
        ("lease: {duration: 10s}", "`duration` in `lease` must be 15s to 300s, found 10s"),
        ("lease: {duration: 301}", "`duration` in `lease` must be 15s to 300s, found 301s"),
        (
            "lease: {duration: 1:30}",
            "`duration` in `lease` must be a duration, such as 30s, 1m or 1h30m; found `1:30`",
        ),
        (
            "lease: {duration: true}",
            "`duration` in `lease` must be a duration, such as 30s, 1m or 1h30m; found `true`",
        ),
        (
            "lease: {duration: []}",
            "`duration` in `lease` must be a duration, such as 30s, 1m or 1h30m; found a list",
        ),
        ("follow: {timeout: 0s}", "`timeout` in `follow` must be more than 0"),
        ("lease: {discovery: label}", "`discovery` in `lease` must be `labelled` or `configured`, found `label`"),
        ("suspend: apps", "`suspend` must be a list of `kind/NAMESPACE/NAME`, not text"),
        ("suspend: [apps]", "an entry of `suspend` must be `kind/NAMESPACE/NAME`, found `apps`"),
        ("suspend: [{a: b}]", "an entry of `suspend` must be `kind/NAMESPACE/NAME`, found a mapping"),
        ("suspend: [k/a/b, k/a/b]", "`suspend` names k/a/b twice"),
        (
            "nodes: {max_unavailable: 0}",
            "`max_unavailable` in `nodes` must be a whole number from 1 on, found `0`",
        ),
        (
            "nodes: {max_unavailable: '1'}",
            "`max_unavailable` in `nodes` must be a whole number from 1 on, found `1`",
        ),
        (
            "nodes: {max_unavailable: {}}",
            "`max_unavailable` in `nodes` must be a whole number from 1 on, found a mapping",
        ),
        ("nodes: {command: ./x}", "`command` in `nodes` must be a list of words, not text"),
        ("nodes: {command: []}", "`command` in `nodes` must be a list of words, not a list"),
        ("nodes: {command: [a, 1]}", "a word of `command` in `nodes` must be text, not a number"),
        ("nodes: {selector: {a: b}}", "`selector` in `nodes` must be text, not a mapping"),
        ("rollback: {on_failure: 1}", "`on_failure` in `rollback` must be true or false, found `1`"),
        ("rollback: {on_failure: [1]}", "`on_failure` in `rollback` must be true or false, found a list"),
        ("rollback: {after: kept}", "`after` in `rollback` must be `keep` or `resume`, found `kept`"),
        (
            "github: {repository: acme}",
            "`repository` in `github` must be a repository, `owner/name`, found `acme`",
        ),
        (
            "github: {repository: a/b/c}",
            "`repository` in `github` must be a repository, `owner/name`, found `a/b/c`",
        ),
        ("targets: {}", "`targets` must be a mapping of names, found a mapping"),
        ("targets: [prod]", "`targets` must be a mapping of names, found a list"),
        ("targets: {prod: prod-admin}", "target `prod` must be a mapping, not text"),
        ("targets: {' ': {}}", "a target has no name"),
        ("targets: {a: {context: x}, x: }", "targets `a` and `x` are the same context `x`"),
    ],
)
def test_wrong_value_is_refused_with_its_place(text: str, problem: str) -> None:
    """Each type and range, named by the key and the section it stands in."""
    found, hint = refusal(f"{HEAD}{text}\n")
    assert found.partition(": ")[2] == problem
    assert hint is not None
    assert "Nothing was read or changed" in hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "fencectl.yaml: is empty"),
        ("# only a comment\n", "fencectl.yaml: is empty"),
        ("prod", "fencectl.yaml:1: a config is a mapping, found text"),
        ("kind: Config\n", "fencectl.yaml:1: `apiVersion` is missing"),
        ("apiVersion: fencectl.dev/v1\n", "fencectl.yaml:1: `kind` is missing"),
        (
            "apiVersion: fencectl.dev/v2\nkind: Config\nnew: 1\n",
            "fencectl.yaml:1: `apiVersion` is `fencectl.dev/v2`, and this program reads `fencectl.dev/v1`",
        ),
        (
            "apiVersion: fencectl.dev/v1\nkind: [Config]\n",
            "fencectl.yaml:2: `kind` is a list, and this program reads `Config`",
        ),
    ],
)
def test_file_that_is_no_config_of_ours_is_refused_first(text: str, problem: str) -> None:
    """The version decides before any key does: a later version has keys that are unknown here."""
    assert refusal(text)[0] == problem


@pytest.mark.parametrize("word", ["true", "True", "yes", "on"])
def test_every_spelling_of_true_in_yaml_is_true(word: str) -> None:
    """YAML 1.1 knows several."""
    assert parse_config(f"{HEAD}rollback: {{on_failure: {word}}}", path="x").settings.rollback.on_failure is True
    no = {"true": "false", "True": "False", "yes": "no", "on": "off"}[word]
    assert parse_config(f"{HEAD}rollback: {{on_failure: {no}}}", path="x").settings.rollback.on_failure is False


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    """Whatever stands in the file, there is a config or one clear error."""
    try:
        parse_config(HEAD + text, path="fencectl.yaml")
    except FencectlError as error:
        assert error.sentence.startswith("fencectl.yaml")  # noqa: PT017  either outcome is right
