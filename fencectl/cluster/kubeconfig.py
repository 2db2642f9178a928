"""
From flags, environment and kubeconfig files to the one cluster and user that kubectl would use.

Everything that can be wrong with a kubeconfig is said here, before anything is read from a cluster, as a
`UsageError`: file, context, cluster or user by name, never a value that could be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fencectl.cluster.endpoint import Endpoint, parse_server
from fencectl.cluster.kubeconfig_entries import ClusterEntry, ContextEntry, Impersonation, UserEntry
from fencectl.cluster.kubeconfig_merge import Kubeconfig, load
from fencectl.cluster.login import Login, check_user
from fencectl.core.errors import UsageError

if TYPE_CHECKING:
    from fencectl.cluster.clock import Clock
    from fencectl.cluster.proxy import Proxy
    from fencectl.cluster.tls import TlsSettings
    from fencectl.cluster.transport import Transport

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """
    One cluster and one user, as resolved.

    `context_name` is for people; `context_flag` and `kubeconfig_flag` are what a printed command needs to reach
    the same cluster (`None`: no flag). `server` is as the kubeconfig writes it and holds no credential.
    """

    context_name: str
    context_flag: str | None
    kubeconfig_flag: str | None
    server: str
    namespace: str
    cluster_name: str
    user_name: str
    in_cluster: bool
    endpoint: Endpoint
    tls: TlsSettings | None
    proxy: Proxy | None
    compression: bool
    impersonation: Impersonation
    context: ContextEntry = field(repr=False)
    login: Login = field(repr=False)

    @property
    def entries(self) -> tuple[ContextEntry, ClusterEntry, UserEntry]:
        """What it was resolved from, with paths made absolute. The user's holds what proves it."""
        return self.context, self.login.cluster, self.login.user

    @property
    def kubectl_flags(self) -> tuple[str, ...]:
        """What kubectl must be told to reach the same cluster, unquoted."""
        flags: list[str] = []
        if self.kubeconfig_flag is not None:
            flags += ["--kubeconfig", self.kubeconfig_flag]
        if self.context_flag is not None:
            flags += ["--context", self.context_flag]
        return tuple(flags)

    def open(self, *, clock: Clock | None = None, request_timeout_s: float | None = None) -> Transport:
        """Return a transport; nothing is sent before its first request."""
        from fencectl.cluster.transport import Transport

        return Transport(self, clock=clock, request_timeout_s=request_timeout_s)


def list_contexts(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> tuple[str, ...]:
    """Return the names of all contexts, sorted."""
    return tuple(sorted(load(kubeconfig, environ, home).contexts))


def resolve(
    kubeconfig: str | None,
    context: str | None,
    environ: Mapping[str, str],
    home: Path,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Return what kubectl would connect to with the same flags, environment and files."""
    found = load(kubeconfig, environ, home)
    name = context or found.current_context
    if not name:
        if _in_cluster(environ, service_account):
            return _pod_connection(environ, service_account, home)
        if environ.get("KUBERNETES_MASTER"):
            return _connect(
                context=ContextEntry(name=""),
                cluster=ClusterEntry(name="", server=environ["KUBERNETES_MASTER"]),
                user=UserEntry(name=""),
                kubeconfig=kubeconfig,
                environ=environ,
                home=home,
            )
        raise _nothing_chosen(found)
    chosen = found.contexts.get(name)
    if chosen is None:
        raise _no_such_context(found, name)
    return _connect(
        context=chosen,
        cluster=_cluster_of(found, chosen, environ),
        user=_user_of(found, chosen),
        kubeconfig=kubeconfig,
        environ=environ,
        home=home,
    )


def _connect(
    *,
    context: ContextEntry,
    cluster: ClusterEntry,
    user: UserEntry,
    kubeconfig: str | None,
    environ: Mapping[str, str],
    home: Path,
    in_cluster: bool = False,
) -> Connection:
    whose = f"cluster `{cluster.name}`" if cluster.name else "KUBERNETES_MASTER"
    endpoint = parse_server(cluster.server, whose=whose)
    check_user(user)
    tls = _tls_of(cluster, whose=whose) if endpoint.secure else None
    login = Login(user=user, cluster=cluster, tls=tls, environ=environ)
    if user.exec is not None and login.runs_plugin:
        from fencectl.cluster.plugin_policy import check_policy

        check_policy(user.exec.command, whose=f"user `{user.name}`", environ=environ, home=home)
    return Connection(
        context_name=context.name or ("in-cluster" if in_cluster else cluster.server),
        context_flag=context.name or None,
        kubeconfig_flag=kubeconfig or None,
        server=cluster.server,
        namespace=context.namespace or "default",
        cluster_name=cluster.name,
        user_name=user.name,
        in_cluster=in_cluster,
        endpoint=endpoint,
        tls=tls,
        proxy=_proxy_for(cluster, endpoint, environ, whose=whose),
        compression=not cluster.disable_compression,
        impersonation=user.impersonation,
        context=context,
        login=login,
    )


def _cluster_of(found: Kubeconfig, context: ContextEntry, environ: Mapping[str, str]) -> ClusterEntry:
    master = environ.get("KUBERNETES_MASTER", "")
    cluster = found.clusters.get(context.cluster)
    if cluster is None:
        said = f"the cluster `{context.cluster}`, which is not there" if context.cluster else "no cluster"
        raise UsageError(
            f"context `{context.name}` in {found.shown} names {said}", hint=_known("clusters", found.clusters)
        )
    if cluster.server:
        return cluster
    if master:
        from dataclasses import replace

        return replace(cluster, server=master)
    # kubectl would fall back to localhost:8080, which is never what a fence stands on.
    raise UsageError(f"cluster `{cluster.name}` in {found.shown} names no server")


def _user_of(found: Kubeconfig, context: ContextEntry) -> UserEntry:
    if not context.user:
        return UserEntry(name="")
    user = found.users.get(context.user)
    if user is None:
        # kubectl goes on as nobody in particular; what it then may not see would look like "not there".
        raise UsageError(
            f"context `{context.name}` in {found.shown} names the user `{context.user}`, which is not there",
            hint=_known("users", found.users),
        )
    return user


def _tls_of(cluster: ClusterEntry, *, whose: str) -> TlsSettings:
    from fencectl.cluster.credentials import os_reason, read_file
    from fencectl.cluster.tls import TlsSettings

    if cluster.ca_file and cluster.ca_data:
        raise UsageError(f"{whose} has both certificate-authority and certificate-authority-data: keep one")
    if cluster.insecure and (cluster.ca_file or cluster.ca_data):
        raise UsageError(f"{whose} has a certificate authority and insecure-skip-tls-verify: keep one")
    ca_pem = cluster.ca_data
    if cluster.ca_file:
        try:
            ca_pem = read_file(cluster.ca_file)
        except OSError as error:
            raise UsageError(
                f"the certificate authority of {whose}, {cluster.ca_file}, cannot be read: {os_reason(error)}"
            ) from None
    return TlsSettings(
        whose=whose,
        ca_pem=ca_pem,
        has_ca=bool(cluster.ca_file or cluster.ca_data),
        insecure=cluster.insecure,
        server_name=cluster.tls_server_name,
    )


def _proxy_for(
    cluster: ClusterEntry, endpoint: Endpoint, environ: Mapping[str, str], *, whose: str
) -> Proxy | None:
    if cluster.proxy_url:
        from fencectl.cluster.proxy import configured_proxy

        return configured_proxy(cluster.proxy_url, whose=whose)
    variable = f"{endpoint.scheme}_proxy"
    if not (environ.get(variable) or environ.get(variable.upper())):
        return None
    from fencectl.cluster.proxy import proxy_from

    return proxy_from(environ, scheme=endpoint.scheme, host=endpoint.host, port=endpoint.port)


def _in_cluster(environ: Mapping[str, str], service_account: Path) -> bool:
    return bool(
        environ.get("KUBERNETES_SERVICE_HOST")
        and environ.get("KUBERNETES_SERVICE_PORT")
        and (service_account / "token").is_file()
    )


def _pod_connection(environ: Mapping[str, str], service_account: Path, home: Path) -> Connection:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    return _connect(
        context=ContextEntry(name="", namespace=_pod_namespace(environ, service_account)),
        cluster=ClusterEntry(
            name="in-cluster",
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_file=str(service_account / "ca.crt"),
        ),
        user=UserEntry(name="service account", token_file=str(service_account / "token")),
        kubeconfig=None,
        environ=environ,
        home=home,
        in_cluster=True,
    )


def _pod_namespace(environ: Mapping[str, str], service_account: Path) -> str:
    if environ.get("POD_NAMESPACE"):
        return environ["POD_NAMESPACE"]
    try:
        return (service_account / "namespace").read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _nothing_chosen(found: Kubeconfig) -> UsageError:
    if found.contexts:
        return UsageError(
            f"no current context in {found.shown}",
            hint=f"name one with --context. {_known('', found.contexts)}",
        )
    if found.found:
        return UsageError(f"no context in {found.shown}")
    return UsageError(
        f"no kubeconfig: there is no {found.shown}",
        hint="name a file with --kubeconfig or KUBECONFIG",
    )


def _no_such_context(found: Kubeconfig, name: str) -> UsageError:
    import difflib

    if not found.found:
        return UsageError(
            f"no context `{name}`: there is no {found.shown}",
            hint="name a file with --kubeconfig or KUBECONFIG",
        )
    near = difflib.get_close_matches(name, found.contexts, n=1)
    guess = f"did you mean `{near[0]}`? " if near else ""
    return UsageError(f"no context `{name}` in {found.shown}", hint=guess + _known("", found.contexts))


def _known(kind: str, names: Mapping[str, object]) -> str:
    what = f" {kind}" if kind else ""
    return f"There are{what}: {', '.join(sorted(names))}" if names else f"There are no {kind or 'contexts'}"
