"""
A real kube-apiserver with its etcd, on free loopback ports and with its own data folder.

There are no controllers unless asked for: namespaces are not emptied, service accounts are not made, nothing
runs a pod or sets the status of a node. Flux's kustomize-controller can be started on top.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.support.certificates import make_client_ca, make_client_certificate, make_key
from tests.support.programs import (
    Program,
    StartFailedError,
    build_cache,
    find_kubectl,
    find_program,
    free_ports,
    require_program,
)
from tests.support.rawhttp import RawClient, Server

__all__ = [
    "ADMIN",
    "USERS",
    "Program",
    "RealCluster",
    "StartFailedError",
    "build_cache",
    "find_kubectl",
    "find_program",
    "free_ports",
    "kubeconfig_text",
    "require_program",
]

FLUX_CRDS_FOLDER = "flux-crds"

# `admin` may do everything. The others may do nothing until a test grants it.
ADMIN = "admin"
NAMED_USERS = ("viewer", "reporter", "recoverer", "deployer", "operator")
USERS = (*NAMED_USERS, *(f"user-{number}" for number in range(1, 21)))

# Four seconds on an idle machine with two cores; the rest is for a busy one.
READY_TIMEOUT_S = 90.0
POLL_S = 0.1
START_ATTEMPTS = 3


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

    def pids(self) -> list[int]:
        """Give the processes of this cluster."""
        return [program.pid for program in self._programs]

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
            make_client_certificate(folder, user, groups)
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
        make_key(self._service_account_key)
        make_client_ca(self.folder / "clients")

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
            env={"GOGC": "400"},  # a heap that is four times as large costs less than to look for garbage in it
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
