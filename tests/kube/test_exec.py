"""Exec plugins without a cluster: what they are given, and how they may fail."""

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
from fencectl.cluster.credentials import Ticket
from tests.kube.support_kube import SECRET, Desk, FakeClock, Raw
from tests.kube.support_plugin import V1, V1BETA1, answering, credential, failing, runs, source_of


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with nothing but PATH in the environment."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def clock() -> FakeClock:
    """Let a test say what time it is."""
    return FakeClock()


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
