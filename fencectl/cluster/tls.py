"""TLS as Go does it: the CA of the kubeconfig and no other, SAN only, TLS 1.2 at least; no key on disk."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from fencectl.cluster.credentials import KeyPair
from fencectl.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to know the server. `whose` is what an error calls the cluster."""

    whose: str
    ca_pem: bytes = field(default=b"", repr=False)
    has_ca: bool = False
    insecure: bool = False
    server_name: str = ""


def build_context(settings: TlsSettings, key_pair: KeyPair | None) -> ssl.SSLContext:
    """Return a context for these settings and this client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    # NB: Go trusts what the CA file holds as it stands, an intermediate or a server certificate included.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.has_ca:
        _trust(context, settings)
    else:
        context.load_default_certs()
    if key_pair is not None and not _present(context, key_pair):
        raise UsageError(
            f"the client certificate and key for {settings.whose} do not fit each other, are encrypted or no PEM"
        )
    return context


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_verify_locations(cadata=settings.ca_pem.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError):
        raise UsageError(f"the certificate authority of {settings.whose} holds no usable certificate") from None


def key_pair_fits(key_pair: KeyPair) -> bool:
    """Return whether OpenSSL takes the pair: PEM, not encrypted, and one key for one certificate."""
    return _present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), key_pair)


def _present(context: ssl.SSLContext, key_pair: KeyPair) -> bool:
    pem = key_pair.cert.rstrip(b"\n") + b"\n" + key_pair.key
    with _file_of(pem) as path:
        try:
            # NB: without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError):
            return False
    return True


@contextlib.contextmanager
def _file_of(pem: bytes) -> Iterator[str]:
    """OpenSSL reads keys from files only: give it one that nobody else can open by name."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("fencectl", os.MFD_CLOEXEC)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(pem)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    import tempfile

    handle, path = tempfile.mkstemp(prefix="fencectl-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)  # noqa: PTH108
