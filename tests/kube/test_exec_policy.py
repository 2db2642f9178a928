"""The policy of kuberc: a plugin that kubectl refuses is not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencectl.core.errors import UsageError
from tests.kube.support_kube import Desk, FakeClock, Raw, config
from tests.kube.support_plugin import V1, failing, runs


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with nothing but PATH in the environment."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def clock() -> FakeClock:
    """Let a test say what time it is."""
    return FakeClock()


ALLOWLIST = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n"


@pytest.mark.parametrize(
    ("policy", "command", "allowed"),
    [
        ("", "login", True),
        ("credentialPluginPolicy: AllowAll\n", "login", True),
        ("credentialPluginPolicy: DenyAll\n", "login", False),
        ("credentialPluginPolicy: Sometimes\n", "login", False),
        ("credentialPluginPolicy: DenyAll\ncredentialPluginAllowlist: [{command: login}]\n", "login", False),
        (f"{ALLOWLIST}- command: login\n", "login", True),
        (f"{ALLOWLIST}- name: login\n", "login", True),
        (f"{ALLOWLIST}- command: HOME/bin/login\n", "login", True),
        (f"{ALLOWLIST}- command: login\n", "../bin/login", True),
        (f"{ALLOWLIST}- command: other\n", "login", False),
        (f"{ALLOWLIST}- command: HOME/other/login\n", "login", False),
        (f"{ALLOWLIST}- command: ./login\n", "login", False),
        (f"{ALLOWLIST}- command: ''\n", "login", False),
        ("credentialPluginPolicy: Allowlist\n", "login", False),
        ("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: []\n", "login", False),
    ],
)
def test_a_plugin_that_kuberc_does_not_allow_is_not_run(
    desk: Desk, clock: FakeClock, policy: str, command: str, allowed: bool
) -> None:
    """The guard against programs named in somebody else's kubeconfig holds for us as for kubectl."""
    script = f"echo run >>{desk.home}/runs; exit 3"
    desk.program("bin/login", script)
    desk.program("other/login", script)
    desk.environ.update({"PATH": f"{desk.home}/bin:/usr/bin:/bin", "HOME": str(desk.home)})
    head = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"
    desk.write(".kube/kuberc", head + policy.replace("HOME", str(desk.home)))
    desk.write(
        ".kube/config", config(user={"exec": {"apiVersion": V1, "command": command, "interactiveMode": "Never"}})
    )
    desk.kubectl("get", "--raw", "/api")
    assert (runs(desk) > 0) is allowed
    if allowed:
        assert "failed with exit code 3" in failing(desk.resolve().login.source(clock)).sentence
        return
    with pytest.raises(UsageError):
        desk.resolve()


def test_kuberc_is_looked_for_where_kubectl_looks(desk: Desk) -> None:
    """By KUBERC, which also turns it off; a token beside the plugin needs no permission."""
    user: Raw = {"exec": {"apiVersion": V1, "command": "login", "interactiveMode": "Never"}}
    desk.write(".kube/config", config(user=user))
    kuberc = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"
    desk.write(".kube/kuberc", kuberc)
    with pytest.raises(UsageError) as caught:
        desk.resolve()
    assert caught.value.sentence == (
        f"{desk.home}/.kube/kuberc does not allow the exec plugin `login` of user `prod`"
    )
    desk.environ["KUBERC"] = "off"
    assert desk.resolve().login.runs_plugin
    for content in (None, "- broken", "kind: Other\n"):
        desk.environ["KUBERC"] = str(desk.home / "mine")
        if content is not None:
            desk.write("mine", content)
        with pytest.raises(UsageError, match="KUBERC names"):
            desk.resolve()
    del desk.environ["KUBERC"]
    desk.write(".kube/kuberc", "- broken\n")
    assert desk.resolve().login.runs_plugin
    desk.write(".kube/kuberc", kuberc)
    desk.write(".kube/config", config(user={**user, "token": "t"}))
    assert not desk.resolve().login.runs_plugin
