"""Exec plugins without a cluster: what they are given, how they may fail, and when they run again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencectl.cluster import exec_plugin
from fencectl.cluster.credentials import CredentialsMissing, Ticket, TicketSource
from fencectl.core.errors import ExitCode, UsageError
from tests.kube.support_kube import SECRET, Desk, FakeClock, Raw, config

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with nothing but PATH in the environment."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def clock() -> FakeClock:
    """Let a test say what time it is."""
    return FakeClock()


def credential(version: str = V1, **status: object) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def source_of(
    desk: Desk, clock: FakeClock, script: str = "", cluster: Raw | None = None, **more: object
) -> TicketSource:
    """Write a plugin and a kubeconfig that names it, and return where its tickets come from."""
    if script:
        desk.program(".kube/login", script)
    entry: Raw = {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", **more}
    desk.write(".kube/config", config(user={"exec": entry}, cluster=cluster))
    return desk.resolve().login.source(clock)


def answering(desk: Desk, text: str) -> str:
    """Return a script that writes this text and counts its runs."""
    answer = desk.write("answer.json", text)
    return f"echo run >>{desk.home}/runs; cat {answer}"


def runs(desk: Desk) -> int:
    path = desk.home / "runs"
    return path.read_text().count("run") if path.exists() else 0


def failing(source: TicketSource, wait_s: float = 20.0) -> CredentialsMissing:
    """Return the failure; no planted secret is in it, and nobody goes on without credentials."""
    with pytest.raises(CredentialsMissing) as caught:
        source.ticket(wait_s=wait_s)
    error = caught.value
    assert error.exit_code is ExitCode.INCOMPLETE
    assert SECRET not in f"{error.sentence} {error.reason} {error.hint} {error.__cause__!r}"
    return error


def test_a_plugin_is_given_what_kubectl_gives_it(desk: Desk, clock: FakeClock) -> None:
    """Arguments, environment, folder and KUBERNETES_EXEC_INFO with the cluster: the same, variable by variable."""
    desk.write(".kube/ca.crt", "")
    desk.environ["HOME"] = str(desk.home)
    desk.environ["FROM_OUTSIDE"] = "yes"
    script = (
        f'pwd >{desk.home}/$SEEN.pwd; echo "$@" >{desk.home}/$SEEN.args; env >{desk.home}/$SEEN.env\n'
        f"cat >{desk.home}/$SEEN.stdin; exit 3"
    )
    cluster: Raw = {
        "server": "https://127.0.0.1:1/base/",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://127.0.0.1:1",
        "disable-compression": True,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": ["a"], "n": 5}}],
    }
    for seen in ("kubectl", "ours"):
        env = [{"name": "SEEN", "value": seen}, {"name": "FROM_OUTSIDE", "value": "no"}]
        options: Raw = {"args": ["get-token", "a b"], "env": env, "provideClusterInfo": True}
        source = source_of(desk, clock, script, cluster, **options)
        if seen == "kubectl":
            assert desk.kubectl("get", "--raw", "/api").returncode != 0
        else:
            failing(source)
    kubectl, ours = (
        {name: (desk.home / f"{who}.{name}").read_text() for name in ("pwd", "args", "stdin")}
        | {"env": _environment(desk.home / f"{who}.env")}
        for who in ("kubectl", "ours")
    )
    assert ours == kubectl
    assert ours["args"] == "get-token a b\n"


def _environment(path: Path) -> dict[str, object]:
    variables = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    seen: dict[str, object] = {name: variables.get(name) for name in ("FROM_OUTSIDE", "HOME")}
    seen["info"] = json.loads(variables["KUBERNETES_EXEC_INFO"])
    return seen


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_an_answer_of_the_configured_version_is_used(desk: Desk, clock: FakeClock, version: str) -> None:
    """A token, as JSON or as YAML; v1beta1 needs no interactiveMode."""
    mode = {} if version == V1 else {"interactiveMode": None}
    text = credential(version, token="abc")
    assert source_of(desk, clock, answering(desk, text), apiVersion=version, **mode).ticket(wait_s=20) == Ticket(
        "Bearer abc"
    )
    yaml = f"apiVersion: {version}\nkind: ExecCredential\nstatus:\n  token: abc\n"
    source = source_of(desk, clock, answering(desk, yaml), apiVersion=version, **mode)
    assert source.ticket(wait_s=20) == Ticket("Bearer abc")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "answered something that is no ExecCredential"),
        (SECRET, "answered something that is no ExecCredential"),
        (f'{{"{SECRET}', "answered something that is no ExecCredential"),
        (json.dumps({"kind": SECRET, "apiVersion": V1}), "answered something that is no ExecCredential"),
        (credential(V1BETA1, token=SECRET), f"answered {V1BETA1}, but the kubeconfig says {V1}"),
        (credential(SECRET, token=SECRET), f"answered another version, but the kubeconfig says {V1}"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}), "answered without a status"),
        (credential(), "answered neither a token nor a certificate"),
        (credential(token=7), "answered a token or certificate that is no text"),
        (credential(clientKeyData=SECRET), "answered a certificate or a key, but not both"),
        (
            credential(clientCertificateData=SECRET, clientKeyData=SECRET),
            "answered a certificate and key that do not fit each other",
        ),
        (
            credential(token=SECRET, expirationTimestamp="soon"),
            "answered an expirationTimestamp that is no RFC 3339 time",
        ),
        (
            credential(token=SECRET, expirationTimestamp="2026-11-30T02:47:31"),
            "answered an expirationTimestamp that is no RFC 3339 time",
        ),
        ("x" * 1_100_000, "answered something that is no ExecCredential"),
    ],
)
def test_an_answer_that_is_no_credential_stops_everything(
    desk: Desk, clock: FakeClock, text: str, said: str
) -> None:
    """One sentence that names the plugin; its answer is never repeated."""
    error = failing(source_of(desk, clock, answering(desk, text)))
    assert error.sentence == f"the exec plugin `{desk.home}/.kube/login` of user `prod` {said}"


def test_a_token_that_no_header_can_carry_is_refused_unread(desk: Desk, clock: FakeClock) -> None:
    """A line break in a token would begin another header."""
    source = source_of(desk, clock, answering(desk, credential(token=f"{SECRET}\nX: y")))
    assert "no HTTP header can carry" in failing(source).sentence


def test_a_plugin_that_fails_stops_everything(desk: Desk, clock: FakeClock) -> None:
    """kubectl stops as well; other clients go on as nobody."""
    error = failing(source_of(desk, clock, f"echo {SECRET}; exit 7"))
    assert error.sentence.endswith("failed with exit code 7")
    assert desk.kubectl("get", "--raw", "/api").returncode != 0


@pytest.mark.parametrize("command", ["./gone", "gone-plugin", "."])
def test_a_plugin_that_is_not_there_is_said_with_its_install_hint(
    desk: Desk, clock: FakeClock, command: str
) -> None:
    """What the kubeconfig's author wrote for this very case."""
    error = failing(source_of(desk, clock, command=command, installHint="brew install it\n"))
    assert error.sentence.endswith("is not there, or not executable")
    assert error.hint == "brew install it"
    assert desk.kubectl("get", "--raw", "/api").returncode != 0


def test_a_plugin_that_cannot_be_run_is_said(desk: Desk, clock: FakeClock) -> None:
    """Not executable, or a script of an interpreter that is not there."""
    source = source_of(desk, clock, "true")
    (desk.home / ".kube/login").chmod(0o644)
    assert failing(source).sentence.endswith("is not there, or not executable")
    source = source_of(desk, clock)
    desk.write(".kube/login", "#!/no/such/interpreter\n").chmod(0o755)
    assert failing(source).sentence.endswith("cannot be run: no such file or directory")


def test_a_bare_command_is_found_in_path_and_never_in_the_current_folder(desk: Desk, clock: FakeClock) -> None:
    """`PATH=.:bin` names the folder that somebody happens to stand in: Go refuses that, too."""
    desk.program("login", f"echo '{credential(token='trap')}'")
    desk.program("bin/login", f"echo '{credential(token='good')}'")
    desk.environ["PATH"] = f".::{desk.home}/bin:/usr/bin:/bin"
    assert source_of(desk, clock, command="login").ticket(wait_s=20) == Ticket("Bearer good")


def test_always_interactive_without_a_terminal_is_refused(desk: Desk, clock: FakeClock) -> None:
    """As kubectl does; tests have no terminal."""
    source = source_of(desk, clock, answering(desk, credential(token="abc")), interactiveMode="Always")
    assert "needs a terminal" in failing(source).sentence
    assert runs(desk) == 0


@contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """Let this process have another standard input for a while."""
    saved = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(saved, 0)
        os.close(saved)


@pytest.mark.parametrize("mode", ["Never", "IfAvailable"])
def test_case_69_a_plugin_that_prompts_gets_no_stdin_and_does_not_hang(
    desk: Desk, clock: FakeClock, mode: str
) -> None:
    """In a pipe standard input is empty for it, though ours is open and silent."""
    source = source_of(desk, clock, "read answer && exit 0; exit 9", interactiveMode=mode)
    reader, writer = os.pipe()
    with standard_input(reader):
        assert failing(source).sentence.endswith("failed with exit code 9")
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(("mode", "asked"), [("Never", False), ("IfAvailable", True), ("Always", True)])
def test_a_plugin_may_ask_on_a_terminal(desk: Desk, clock: FakeClock, mode: str, asked: bool) -> None:
    """On a terminal it gets standard input, unless it says that it never asks; and it is told so."""
    script = (
        f'read answer || answer=nobody; printf %s "$KUBERNETES_EXEC_INFO" >{desk.home}/info\n'
        f"""printf '{credential(token="%s")}' "$answer\""""
    )
    source = source_of(desk, clock, script, interactiveMode=mode)
    ours, theirs = os.openpty()
    os.write(ours, b"typed\n")
    with standard_input(theirs):
        assert source.ticket(wait_s=20) == Ticket("Bearer typed" if asked else "Bearer nobody")
    os.close(ours)
    os.close(theirs)
    assert json.loads((desk.home / "info").read_text())["spec"] == {"interactive": asked}


def test_case_69_a_plugin_that_hangs_is_killed_with_its_children(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a grandchild that holds the output open is not waited for."""
    monkeypatch.setattr(exec_plugin, "TIME_LIMIT_S", 0.3)
    source = source_of(desk, clock, f"sleep 60 & echo $! >{desk.home}/child; wait")
    started_s = time.monotonic()
    error = failing(source)
    assert error.sentence.endswith("did not answer within 0s")
    assert time.monotonic() - started_s < 10
    child = int((desk.home / "child").read_text())
    end_s = time.monotonic() + 10
    while _runs(child):
        assert time.monotonic() < end_s
        threading.Event().wait(0.01)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_case_69_a_caller_waits_no_longer_than_it_has_time(desk: Desk, clock: FakeClock) -> None:
    """A heartbeat with little time fails in time; the plugin goes on, and the next heartbeat has its answer."""
    go = desk.home / "go"
    os.mkfifo(go)
    source = source_of(desk, clock, f"cat {go} >/dev/null; echo '{credential(token='abc')}'")
    started_s = time.monotonic()
    error = failing(source, wait_s=0.2)
    assert time.monotonic() - started_s < 5
    assert "did not answer within" in error.sentence
    go.write_text("")
    assert source.ticket(wait_s=20) == Ticket("Bearer abc")


def test_one_run_serves_all_threads(desk: Desk, clock: FakeClock) -> None:
    """Eight readers start at once: the plugin may ask a person, so it runs once."""
    go = desk.home / "go"
    os.mkfifo(go)
    source = source_of(desk, clock, f"cat {go} >/dev/null; {answering(desk, credential(token='abc'))}")
    tickets: list[Ticket] = []
    threads = [threading.Thread(target=lambda: tickets.append(source.ticket(wait_s=20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.write_text("")
    for thread in threads:
        thread.join(20)
    assert tickets == [Ticket("Bearer abc")] * 8
    assert runs(desk) == 1


def expiring(clock: FakeClock, in_s: float, token: str) -> str:
    at = clock.wall().timestamp() + in_s
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return credential(token=token, expirationTimestamp=f"{stamp}.123456789Z")


def test_case_69_a_token_is_renewed_before_it_ends(desk: Desk, clock: FakeClock) -> None:
    """A token of 60 s: used again, renewed in its last fifth while it is still used, and never used after its end."""
    source = source_of(desk, clock, answering(desk, expiring(clock, 60, "one")))
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    clock.now_s += 47
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    assert runs(desk) == 1
    answering(desk, expiring(clock, 60, "two"))
    clock.now_s += 3
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    _until(lambda: source.ticket(wait_s=20) == Ticket("Bearer two"))
    assert runs(desk) == 2
    clock.now_s += 61
    answering(desk, expiring(clock, 60, "three"))
    assert source.ticket(wait_s=20) == Ticket("Bearer three")


def test_a_renewal_that_fails_ahead_of_time_stops_nobody(desk: Desk, clock: FakeClock) -> None:
    """What is there is used to its end, the plugin is not run at every request, and then the failure is said."""
    source = source_of(desk, clock, answering(desk, expiring(clock, 600, "one")))
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    answering(desk, "broken")
    clock.now_s += 550
    for _ in range(20):
        assert source.ticket(wait_s=20) == Ticket("Bearer one")
        _until(lambda: runs(desk) == 2)
    _until(lambda: not _busy())
    clock.now_s += 11
    assert source.ticket(wait_s=20) == Ticket("Bearer one")
    _until(lambda: runs(desk) == 3 and not _busy())
    clock.now_s += 60
    assert "no ExecCredential" in failing(source).sentence


def test_a_failure_is_not_asked_for_again_at_once(desk: Desk, clock: FakeClock) -> None:
    """A report of forty reads would else start a failing plugin forty times."""
    source = source_of(desk, clock, answering(desk, "broken"))
    for _ in range(5):
        failing(source)
    assert runs(desk) == 1
    clock.now_s += 11
    answering(desk, credential(token="abc"))
    assert source.ticket(wait_s=20) == Ticket("Bearer abc")


def test_case_69_after_a_401_the_plugin_runs_once(desk: Desk, clock: FakeClock) -> None:
    """Two threads were refused with the same token: one run; the same token again is no renewal."""
    source = source_of(desk, clock, answering(desk, credential(token="one")))
    first = source.ticket(wait_s=20)
    assert source.renew(first, wait_s=20) is False
    assert runs(desk) == 2
    answering(desk, credential(token="two"))
    assert source.renew(first, wait_s=20) is True
    assert source.renew(first, wait_s=20) is True
    assert (runs(desk), source.ticket(wait_s=20)) == (3, Ticket("Bearer two"))


def test_a_token_that_was_over_when_it_came_is_used_once(desk: Desk, clock: FakeClock) -> None:
    """A plugin with a clock of its own: kubectl sends what it got, and asks again the next time."""
    source = source_of(desk, clock, answering(desk, expiring(clock, -5, "late")))
    assert source.ticket(wait_s=20) == Ticket("Bearer late")
    assert source.ticket(wait_s=20) == Ticket("Bearer late")
    assert runs(desk) == 2


def _busy() -> bool:
    return any(thread.name == "fencectl-login" for thread in threading.enumerate())


def _until(condition: object, timeout_s: float = 20.0) -> None:
    assert callable(condition)
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


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
