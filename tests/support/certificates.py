"""
Keys and certificates of a throw-away API server.

`testcerts` is built with the rest of the cluster. Where only KUBEBUILDER_ASSETS is there, the openssl of the
system serves.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.programs import StartFailedError, find_program, require_program


def make_key(path: Path) -> None:
    """Make an RSA key."""
    if helper := find_program("testcerts"):
        _quietly(str(helper), "key", str(path))
    else:
        _quietly(_openssl(), "genrsa", "-out", str(path), "2048")


def make_client_ca(folder: Path) -> None:
    """Make client-ca.crt and client-ca.key."""
    if helper := find_program("testcerts"):
        _quietly(str(helper), "ca", str(folder))
        return
    key, certificate = folder / "client-ca.key", folder / "client-ca.crt"
    _quietly(
        _openssl(), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "7", "-subj", "/CN=test-client-ca",
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip


def make_client_certificate(folder: Path, user: str, groups: Sequence[str]) -> None:
    """Make USER.crt and USER.key beside the client CA."""
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
