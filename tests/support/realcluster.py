"""
A real kube-apiserver with its etcd, on free loopback ports and with its own data folder.

The programs come from `KUBEBUILDER_ASSETS` or from the cache that `tests/cluster/build` fills. Without them a
test is skipped with a reason that says how to turn it on; where `CI` is set it fails.

There are no controllers unless asked for: namespaces are not emptied, service accounts are not made, nothing
runs a pod or sets the status of a node. Flux's kustomize-controller can be started on top.
"""

from __future__ import annotations

import base64
import os
import runpy
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
import yaml

from tests.support.rawhttp import RawClient, Server

BUILD = Path(__file__).resolve().parent.parent / "cluster" / "build"
FLUX_CRDS_FOLDER = "flux-crds"

# `admin` may do everything. The others may do nothing until a test grants it.
ADMIN = "admin"
NAMED_USERS = ("viewer", "reporter", "recoverer", "deployer", "operator")
USERS = (*NAMED_USERS, *(f"user-{number}" for number in range(1, 21)))

# Four seconds on an idle machine with two cores; the rest is for a busy one.
READY_TIMEOUT_S = 90.0
POLL_S = 0.1
# The API server's graceful end waits for what is still open; what it would save is thrown away here.
STOP_TIMEOUT_S = 5.0
START_ATTEMPTS = 3


class StartFailedError(RuntimeError):
    """A program of the cluster ended or never became ready; the end of its log is in the message."""


def build_cache() -> Path:
    """Name the folder that `tests/cluster/build` fills; it need not exist."""
    return Path(runpy.run_path(str(BUILD))["cache_folder"]())


def find_program(name: str) -> Path | None:
    """Look for a program where envtest puts it, then where the build script does."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in ([Path(assets)] if assets else []) + [build_cache()]:
        if (folder / name).exists():
            return folder / name
    return None


def require_program(name: str) -> Path:
    """Find a program, or skip the test; where CI is set, fail it."""
    if found := find_program(name):
        return found
    reason = f"no {name}: run tests/cluster/build (needs Go), or set KUBEBUILDER_ASSETS to a folder that holds it"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def find_kubectl() -> str:
    """Find the kubectl of the running Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    if beside.exists():
        return str(beside)
    return shutil.which("kubectl") or str(require_program("kubectl"))


def free_ports(count: int) -> list[int]:
    """Pick distinct free loopback ports. NB: another process may take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Program:
    """One running program of the cluster, its log in a file."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        command = list(arguments)
        # NB: if pytest is killed hard, no fixture stops the program; the kernel then does. It does so too when
        # the *thread* that started it ends, so only the main thread asks for it.
        if (setpriv := shutil.which("setpriv")) and threading.current_thread() is threading.main_thread():
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # ^C at the terminal is for pytest, which then stops things in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class RealCluster:
    """Start with `start()` or as a context manager; `admin` is in system:masters."""

    def __init__(
        self,
        *,
        users: Iterable[str] = (),
        controllers: bool = False,
        flux_crds: bool = False,
        api_server_flags: Sequence[str] = (),
    ) -> None:
        self.users = dict.fromkeys((*USERS, *users))
        self._with_controllers = controllers
        self._with_flux_crds = flux_crds
        self._api_server_flags = tuple(api_server_flags)
        nonce = secrets.token_hex(8)
        self._tokens = {user: f"token-{user}-{nonce}" for user in (ADMIN, *self.users)}
        self._folder: Path | None = None
        self._programs: list[Program] = []
        self._client: RawClient | None = None
        self._etcd_url = ""
        self.url = ""
        self.ca_pem = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The data folder: logs, keys, certificates. It goes with the cluster."""
        if self._folder is None:
            raise RuntimeError("the cluster is not started")
        return self._folder

    @property
    def admin(self) -> RawClient:
        if self._client is None:
            raise RuntimeError("the cluster is not started")
        return self._client

    def start(self) -> None:
        etcd, api_server = require_program("etcd"), require_program("kube-apiserver")
        self._folder = Path(tempfile.mkdtemp(prefix="fencectl-real-"))
        try:
            self._make_keys()
            for attempt in range(1, START_ATTEMPTS + 1):
                try:
                    self._start_api_server(etcd, api_server)
                    break
                except StartFailedError as failed:
                    self._stop_programs()
                    # A port that was free a moment ago may be somebody else's now; anything else is final.
                    if attempt == START_ATTEMPTS or "address already in use" not in str(failed):
                        raise
            if self._with_flux_crds:
                self.install_flux_crds()
            if self._with_controllers:
                self.start_controller_manager()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._stop_programs()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def token(self, user: str) -> str:
        return self._tokens[user]

    def server(self, user: str = ADMIN) -> Server:
        return Server(self.url, token=self.token(user), ca_pem=self.ca_pem)

    def kubeconfig(self, user: str = ADMIN, context: str = "real", *, certificate: bool = False) -> str:
        """Write the text of a kubeconfig with the CA and either the user's token or a client certificate."""
        entry: dict[str, str] = {"token": self.token(user)}
        if certificate:
            paths = self.client_certificate(user)
            names = ("client-certificate-data", "client-key-data")
            entry = {name: _base64(path.read_text()) for name, path in zip(names, paths, strict=True)}
        return kubeconfig_text(
            server=self.url, context=context, user=user, entry=entry, ca_data=_base64(self.ca_pem)
        )

    def client_certificate(self, user: str, *, groups: Sequence[str] | None = None) -> tuple[Path, Path]:
        """Make a client certificate and key for a user (`admin`: in system:masters), and say where they are."""
        if groups is None:
            groups = ["system:masters"] if user == ADMIN else []
        folder = self.folder / "clients"
        certificate, key = folder / f"{user}.crt", folder / f"{user}.key"
        if not certificate.exists():
            _make_client_certificate(folder, user, groups)
        return certificate, key

    def install_flux_crds(self) -> None:
        """Create Flux's CRDs and wait until each is served."""
        crds = require_program(FLUX_CRDS_FOLDER)
        base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        names = []
        for path in sorted(crds.glob("*.yaml")):
            answer = self.admin.request("POST", base, body=path.read_text(), content_type="application/yaml")
            if answer.status not in (201, 409):
                raise StartFailedError(f"CRD {path.name} was refused: {answer.text}")
            names.append(path)
        for path in names:
            crd = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
            for version in crd["spec"]["versions"]:
                if version["served"]:
                    plural = crd["spec"]["names"]["plural"]
                    self._wait_served(f"/apis/{crd['spec']['group']}/{version['name']}/{plural}")

    def start_controller_manager(self) -> Program:
        """Start kube-controller-manager: service accounts, namespaces, PDB status, taints, garbage."""
        (port,) = free_ports(1)
        return self._run(
            "kube-controller-manager",
            f"--kubeconfig={self._kubeconfig_path()}",
            f"--service-account-private-key-file={self._service_account_key}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        )

    def start_kustomize_controller(self) -> Program:
        """Start Flux's kustomize-controller; the CRDs must be there."""
        metrics, health = free_ports(2)
        return self._run(
            "kustomize-controller",
            "--watch-all-namespaces",
            "--events-addr=",
            f"--metrics-addr=127.0.0.1:{metrics}",
            f"--health-addr=127.0.0.1:{health}",
            env={"KUBECONFIG": str(self._kubeconfig_path()), "RUNTIME_NAMESPACE": "flux-system"},
        )

    def compact(self) -> None:
        """Make etcd forget its history now, which the API server otherwise asks for every five minutes."""
        etcd = RawClient(Server(self._etcd_url))
        try:
            revision = etcd.request("POST", "/v3/maintenance/status", body={}).json()["header"]["revision"]
            answer = etcd.request("POST", "/v3/kv/compaction", body={"revision": revision, "physical": True})
        finally:
            etcd.close()
        if answer.status != 200:
            raise RuntimeError(f"etcd refused to compact: {answer.text}")

    def stop_program(self, program: Program) -> None:
        """Stop one program before the rest of the cluster."""
        program.stop()
        self._programs.remove(program)

    def _make_keys(self) -> None:
        (self.folder / "certs").mkdir()
        (self.folder / "clients").mkdir()
        lines = [f'{self._tokens[ADMIN]},{ADMIN},{ADMIN},"system:masters"']
        lines += [f"{self._tokens[user]},{user},{user}" for user in self.users]
        _write_private(self.folder / "tokens.csv", "\n".join(lines) + "\n")
        _make_key(self._service_account_key)
        _make_client_ca(self.folder / "clients")

    @property
    def _service_account_key(self) -> Path:
        return self.folder / "service-account.key"

    def _start_api_server(self, etcd: Path, api_server: Path) -> None:
        etcd_port, peer_port, port = free_ports(3)
        self._etcd_url = etcd_url = f"http://127.0.0.1:{etcd_port}"
        # NB: a fresh folder at each attempt, or etcd would insist on the peer port of the attempt before.
        storage = self._run(
            str(etcd),
            "--data-dir", tempfile.mkdtemp(prefix="etcd-", dir=self.folder),
            "--listen-client-urls", etcd_url,
            "--advertise-client-urls", etcd_url,
            "--listen-peer-urls", f"http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
            "--log-level", "error",
        )  # fmt: skip
        server = self._run(
            str(api_server),
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._service_account_key}",
            f"--service-account-signing-key-file={self._service_account_key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--client-ca-file={self.folder / 'clients' / 'client-ca.crt'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Without controllers no namespace has a service account, and every pod would wait for one.
            *([] if self._with_controllers else ["--disable-admission-plugins=ServiceAccount"]),
            *self._api_server_flags,
        )
        self.url = f"https://127.0.0.1:{port}"
        ca_path = self.folder / "certs" / "apiserver.crt"
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            for program in (storage, server):
                if program.exit_code is not None:
                    raise StartFailedError(f"{program.name} ended with {program.exit_code}\n{program.log_tail()}")
            if ca_path.exists() and self._is_ready(ca_path):
                return
            if time.monotonic() > deadline:
                raise StartFailedError(
                    f"not ready after {READY_TIMEOUT_S:.0f} s\n{storage.log_tail()}\n{server.log_tail()}"
                )
            time.sleep(POLL_S)

    def _is_ready(self, ca_path: Path) -> bool:
        self.ca_pem = ca_path.read_text()
        try:
            client = RawClient(self.server())
        except OSError:  # the certificate is half written
            return False
        try:
            ready = client.request("GET", "/readyz").status == 200
        except OSError:
            ready = False
        if ready:
            self._client = client
        else:
            client.close()
        return ready

    def _wait_served(self, path: str) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while self.admin.request("GET", path).status != 200:
            if time.monotonic() > deadline:
                raise StartFailedError(f"{path} is not served")
            time.sleep(POLL_S)

    def _kubeconfig_path(self) -> Path:
        path = self.folder / "admin.kubeconfig"
        if not path.exists():
            _write_private(path, self.kubeconfig())
        return path

    def _run(self, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> Program:
        path = Path(program) if os.sep in program else require_program(program)
        started = Program(path.name, [str(path), *arguments], folder=self.folder, env=env)
        self._programs.append(started)
        return started

    def _stop_programs(self) -> None:
        # NB: last started, first stopped: an API server whose etcd is gone hangs in its graceful shutdown.
        while self._programs:
            self._programs.pop().stop()


def kubeconfig_text(
    *, server: str, context: str, user: str, entry: Mapping[str, str], ca_data: str | None = None
) -> str:
    """Write a kubeconfig with one cluster, one user and one context."""
    cluster = {"server": server} | ({"certificate-authority-data": ca_data} if ca_data else {})
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": user, "user": dict(entry)}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


# testcerts is built with the rest. Where only KUBEBUILDER_ASSETS is there, the openssl of the system serves.


def _make_key(path: Path) -> None:
    if helper := find_program("testcerts"):
        _quietly(str(helper), "key", str(path))
    else:
        _quietly(_openssl(), "genrsa", "-out", str(path), "2048")


def _make_client_ca(folder: Path) -> None:
    if helper := find_program("testcerts"):
        _quietly(str(helper), "ca", str(folder))
        return
    key, certificate = folder / "client-ca.key", folder / "client-ca.crt"
    _quietly(
        _openssl(), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "7", "-subj", "/CN=test-client-ca",
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip


def _make_client_certificate(folder: Path, user: str, groups: Sequence[str]) -> None:
    if helper := find_program("testcerts"):
        _quietly(str(helper), "client", str(folder), user, *groups)
        return
    subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
    key, request, certificate = (folder / f"{user}.{suffix}" for suffix in ("key", "csr", "crt"))
    _quietly(
        _openssl(), "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject,
        "-keyout", str(key), "-out", str(request),
    )  # fmt: skip
    _quietly(
        _openssl(), "x509", "-req", "-in", str(request), "-days", "7", "-CAcreateserial",
        "-CA", str(folder / "client-ca.crt"), "-CAkey", str(folder / "client-ca.key"), "-out", str(certificate),
    )  # fmt: skip


def _openssl() -> str:
    if found := shutil.which("openssl"):
        return found
    require_program("testcerts")
    raise AssertionError("unreachable: the test was skipped or failed")


def _quietly(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartFailedError(f"{' '.join(command[:2])} failed: {done.stderr.strip()}")
