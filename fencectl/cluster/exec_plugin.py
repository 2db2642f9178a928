"""
Exec credential plugins, by the rules of client-go (plugin/pkg/client/auth/exec).

The plugin runs in the user's own folder, gets stdin only where it may and there is a terminal, and has a minute
(five where it may ask somebody). One that fails, is missing or answers another version stops everything: going
on without credentials would turn "may not see" into "is not there".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any

from fencectl.cluster.clock import Clock
from fencectl.cluster.credentials import CredentialsMissing, KeyPair, Ticket, bearer
from fencectl.cluster.kubeconfig_entries import ClusterEntry, ExecEntry
from fencectl.cluster.plugin_policy import look_path
from fencectl.cluster.renewal import Fetched, RenewedTicket
from fencectl.cluster.tls import TlsSettings, key_pair_fits
from fencectl.core.errors import UsageError

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")

TIME_LIMIT_S = 60.0
ASKING_TIME_LIMIT_S = 300.0
_LONGEST_ANSWER = 1_000_000


def check_entry(entry: ExecEntry, *, whose: str) -> None:
    """Refuse an entry that kubectl refuses."""
    if not entry.command:
        raise UsageError(f"the exec plugin of {whose} has no command")
    if not entry.api_version:
        raise UsageError(f"the exec plugin of {whose} has no apiVersion")
    if any(not name for name, _ in entry.env):
        raise UsageError(f"the exec plugin of {whose} has an environment variable without a name")
    if not entry.interactive_mode:
        raise UsageError(
            f"the exec plugin of {whose} has no interactiveMode, which {_GROUP}/v1 demands",
            hint="add `interactiveMode: IfAvailable` to the user entry",
        )
    if entry.interactive_mode not in _MODES:
        raise UsageError(f"the exec plugin of {whose} has an interactiveMode that is none of {', '.join(_MODES)}")
    if entry.api_version not in _VERSIONS:
        raise UsageError(
            f"the exec plugin of {whose} has an apiVersion that is none of {', '.join(_VERSIONS)}",
            hint="a newer release of the plugin writes a newer kubeconfig",
        )


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin of one user for one cluster."""

    entry: ExecEntry
    whose: str
    cluster: ClusterEntry
    tls: TlsSettings | None
    environ: Mapping[str, str] = field(repr=False)
    clock: Clock

    @property
    def name(self) -> str:
        """How errors call it."""
        return f"the exec plugin `{self.entry.command}` of {self.whose}"

    def source(self) -> RenewedTicket:
        """Return where its tickets come from."""
        return RenewedTicket(self.fetch, what=self.name, clock=self.clock)

    def fetch(self) -> Fetched:
        """Run it once and return what it answered."""
        return self._parse(self._run())

    def _run(self) -> bytes:
        import subprocess

        interactive = self._interactive()
        program = self._program()
        environ = {**self.environ, **dict(self.entry.env), "KUBERNETES_EXEC_INFO": self._info(interactive)}
        limit_s = ASKING_TIME_LIMIT_S if interactive else TIME_LIMIT_S
        # NB: a file, not a pipe: a grandchild that keeps a pipe open would be waited for.
        with _scratch_file() as output:
            try:
                child = subprocess.Popen(
                    [self.entry.command, *self.entry.args],
                    executable=program,
                    env=environ,
                    stdin=None if interactive else subprocess.DEVNULL,
                    stdout=output,
                    # One that asks nobody is kept apart from the terminal's signals: what unwinds needs it.
                    process_group=None if interactive else 0,
                )
            except OSError as error:
                raise self._missing(f"cannot be run: {(error.strerror or '').lower()}") from None
            with child:
                try:
                    code = child.wait(limit_s)
                except subprocess.TimeoutExpired:
                    _kill(child.pid, group=not interactive)
                    raise CredentialsMissing(f"{self.name} did not answer within {limit_s:.0f}s") from None
            if code != 0:
                raise CredentialsMissing(
                    f"{self.name} failed with exit code {code}",
                    reason="its own message stands above, if it wrote one",
                )
            output.seek(0)
            return output.read(_LONGEST_ANSWER + 1)

    def _interactive(self) -> bool:
        try:
            terminal = os.isatty(0)
        except OSError:
            terminal = False
        if self.entry.interactive_mode == "Always" and not terminal:
            raise CredentialsMissing(
                f"{self.name} needs a terminal (interactiveMode: Always), and standard input is none"
            )
        return terminal and self.entry.interactive_mode != "Never"

    def _program(self) -> str:
        found = look_path(self.entry.command, self.environ)
        if found is None:
            raise self._missing("is not there, or not executable")
        return found

    def _missing(self, why: str) -> CredentialsMissing:
        return CredentialsMissing(f"{self.name} {why}", hint=self.entry.install_hint.strip() or None)

    def _info(self, interactive: bool) -> str:
        import json

        spec: dict[str, Any] = {"interactive": interactive}
        if self.entry.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        return json.dumps({"kind": "ExecCredential", "apiVersion": self.entry.api_version, "spec": spec})

    def _cluster_info(self) -> dict[str, Any]:
        import binascii

        cluster = self.cluster
        ca_pem = b"" if self.tls is None else self.tls.ca_pem
        optional = {
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority-data": binascii.b2a_base64(ca_pem, newline=False).decode("ascii"),
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
        }
        return {
            "server": cluster.server,
            **{key: value for key, value in optional.items() if value},
            "config": cluster.exec_config,
        }

    def _parse(self, output: bytes) -> Fetched:
        answer = _document(output)
        if answer is None or len(output) > _LONGEST_ANSWER:
            raise CredentialsMissing(f"{self.name} answered something that is no ExecCredential")
        kind, version = answer.get("kind"), answer.get("apiVersion")
        if kind != "ExecCredential" or not isinstance(version, str):
            raise CredentialsMissing(f"{self.name} answered something that is no ExecCredential")
        if version != self.entry.api_version:
            said = version if version.startswith(f"{_GROUP}/") and len(version) < 60 else "another version"
            raise CredentialsMissing(
                f"{self.name} answered {said}, but the kubeconfig says {self.entry.api_version}"
            )
        status = answer.get("status")
        if not isinstance(status, dict):
            raise CredentialsMissing(f"{self.name} answered without a status")
        return Fetched(self._ticket(status), self._expiry(status))

    def _ticket(self, status: Mapping[str, Any]) -> Ticket:
        values = [status.get(key) or "" for key in ("token", "clientCertificateData", "clientKeyData")]
        if not all(isinstance(value, str) for value in values):
            raise CredentialsMissing(f"{self.name} answered a token or certificate that is no text")
        token, cert, key = values
        if not token and not cert and not key:
            raise CredentialsMissing(f"{self.name} answered neither a token nor a certificate")
        if bool(cert) != bool(key):
            raise CredentialsMissing(f"{self.name} answered a certificate or a key, but not both")
        pair = KeyPair(cert.encode(), key.encode()) if cert else None
        if pair is not None and not key_pair_fits(pair):
            raise CredentialsMissing(f"{self.name} answered a certificate and key that do not fit each other")
        return Ticket(bearer(token, whose=self.name) if token else None, pair)

    def _expiry(self, status: Mapping[str, Any]) -> datetime | None:
        raw = status.get("expirationTimestamp")
        if raw is None:
            return None
        try:
            found = datetime.fromisoformat(raw)
        except (TypeError, ValueError):
            found = None
        if found is None or found.tzinfo is None:
            raise CredentialsMissing(f"{self.name} answered an expirationTimestamp that is no RFC 3339 time")
        return found.astimezone(UTC)


def _document(output: bytes) -> dict[str, Any] | None:
    from fencectl.cluster.kubeconfig_yaml import parse_text

    try:
        found = parse_text(output, shown="the answer")
    except UsageError:
        return None
    return found if isinstance(found, dict) else None


@contextlib.contextmanager
def _scratch_file() -> Iterator[IO[bytes]]:
    """Credentials pass through memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("fencectl", os.MFD_CLOEXEC), "w+b") as file:
            yield file
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        yield file


def _kill(pid: int, *, group: bool) -> None:
    import signal

    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
