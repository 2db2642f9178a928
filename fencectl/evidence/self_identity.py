"""
Who we are: the identity that this process writes on its fences, and everything that proves its end later.

The environment is somebody else's text. A value that cannot be what its name says is left out and said, never
made part of an identity.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fencectl import __version__
from fencectl.core.identity import github_identity, local_identity, pod_identity
from fencectl.core.times import second_time
from fencectl.evidence.machine import Machine
from fencectl.evidence.redact import redact_command

SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
GIT_TIMEOUT_S = 3.0
NO_REVISION = "0" * 40

_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}")
_REVISION = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_ATTEMPT = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", re.ASCII)
_URL = re.compile(r"https?://[A-Za-z0-9.-]{1,200}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,200})?", re.ASCII)
_RUNNER = re.compile(r"github-hosted|self-hosted", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
# The kubelet mounts a file of its own into each container: the path names the pod's uid and the container
# (kubernetes, pkg/kubelet/kubelet_pods.go and kuberuntime_container.go).
_KUBELET_MOUNT = re.compile(
    rf"/pods/(?P<uid>{_UID.pattern})/containers/(?P<container>{_LABEL.pattern})/[^/ ]+ /dev/termination-log ",
    re.ASCII,
)
_HOST_NETWORK = "# Kubernetes-managed hosts file (host network)"


@dataclass(frozen=True, slots=True)
class SelfIdentity:
    """
    Who we are, for the marks and journals of our fences.

    `details`: of the lease's journal. `warnings`: sentences about what was left out, to be said and forgotten.
    """

    identity: str
    details: Mapping[str, Any]
    repository: str | None = None
    server: str | None = None
    job: int | None = None
    job_verified: bool | None = None
    runner: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Environment:
    """The environment, read value by value; what cannot be right is a warning."""

    values: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    def get(self, name: str, shape: re.Pattern[str], what: str) -> str | None:
        value = self.values.get(name, "")
        if not value:
            return None
        if shape.fullmatch(value):
            return value
        self.warnings.append(f"{name} is not {what}; it is ignored")
        return None

    def text(self, name: str) -> str | None:
        return self.get(name, _TEXT, "one line of at most 200 characters")

    def number(self, name: str, shape: re.Pattern[str] = _NUMBER) -> int | None:
        value = self.get(name, shape, "a number that GitHub counts with")
        return int(value) if value is not None else None


@dataclass(frozen=True, slots=True)
class _Pod:
    """The pod that we run in. `name` is None where the host name is not the pod's."""

    namespace: str
    name: str | None
    uid: str | None
    container: str | None


def describe_self(
    environ: Mapping[str, str],
    machine: Machine,
    *,
    command: Sequence[str],
    at: datetime,
    digest: str | None = None,
    folder: Path | None = None,
    nonce: str | None = None,
    job: int | None = None,
    job_verified: bool = False,
) -> SelfIdentity:
    """
    Say who this process is.

    `digest`: of the rendered input, the revision where there is no commit. `folder`: whose git checkout counts,
    the current one by default. `job`: found out otherwise than from `FENCECTL_JOB_ID`; `job_verified`: GitHub has
    confirmed it. `nonce`: given only where the same process says again who it is.
    """
    env = _Environment(environ)
    nonce = nonce or secrets.token_hex(4)
    revision = _revision(env, digest, folder)
    run, attempt = _run_of(env)
    pod = _pod_of(env, machine)
    in_github = run is not None and attempt is not None
    job = (job if job is not None else env.number("FENCECTL_JOB_ID")) if in_github else None
    if run is not None and attempt is not None:
        identity = github_identity(revision=revision, run=run, attempt=attempt, job=job, nonce=nonce)
    elif pod is not None and pod.name is not None:
        identity = pod_identity(revision=revision, namespace=pod.namespace, name=pod.name, nonce=nonce)
    else:
        identity = local_identity(revision=revision, host=machine.host, pid=machine.pid, nonce=nonce)
    own = machine.process(machine.pid)
    runner = env.get("RUNNER_ENVIRONMENT", _RUNNER, "`github-hosted` or `self-hosted`") if in_github else None
    details: dict[str, Any] = {
        "machine_id": machine.machine_id(),
        "boot_id": machine.boot_id(),
        "pid_namespace": machine.pid_namespace(),
        "pid": machine.pid,
        "pid_started": own.started if own else None,
        "payload_group": None,
        "host": machine.host,
        "pod_namespace": pod.namespace if pod else None,
        "pod_name": pod.name if pod else None,
        "pod_uid": pod.uid if pod else None,
        "container": pod.container if pod else None,
        "runner_name": env.text("RUNNER_NAME") if in_github else None,
        "runner_environment": runner,
        "workflow": env.text("GITHUB_WORKFLOW") if in_github else None,
        "job_key": env.text("GITHUB_JOB") if in_github else None,
        "actor": env.text("GITHUB_ACTOR") if in_github else None,
        "revision": revision,
        "command": redact_command(command, environ),
        "started_at": second_time(at),
        "version": __version__,
        "api_url": env.get("GITHUB_API_URL", _URL, "a URL without credentials") if in_github else None,
    }
    return SelfIdentity(
        identity,
        details,
        repository=env.get("GITHUB_REPOSITORY", _REPOSITORY, "`owner/name`") if in_github else None,
        server=env.get("GITHUB_SERVER_URL", _URL, "a URL without credentials") if in_github else None,
        job=job,
        job_verified=job_verified if job is not None else None,
        runner=runner,
        warnings=tuple(env.warnings),
    )


def _run_of(env: _Environment) -> tuple[int | None, int | None]:
    if env.values.get("GITHUB_ACTIONS") != "true":
        return None, None
    run, attempt = env.number("GITHUB_RUN_ID"), env.number("GITHUB_RUN_ATTEMPT", _ATTEMPT)
    if run is None or attempt is None:
        env.warnings.append("GITHUB_ACTIONS is true, but the run and its attempt are not known; it is ignored")
        return None, None
    return run, attempt


def _revision(env: _Environment, digest: str | None, folder: Path | None) -> str:
    given = env.get("GITHUB_SHA", _REVISION, "a commit")
    if given is not None:
        return given
    committed = _git_head(env.values, folder)
    if committed is not None:
        return committed
    return digest.removeprefix("sha256:") if digest else NO_REVISION


def _git_head(environ: Mapping[str, str], folder: Path | None) -> str | None:
    import subprocess

    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            env={**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=GIT_TIMEOUT_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    said = done.stdout.decode("ascii", errors="replace").strip()
    return said if done.returncode == 0 and _REVISION.fullmatch(said) else None


def _pod_of(env: _Environment, machine: Machine) -> _Pod | None:
    """The pod that we run in; None where the API server has put no service account here."""
    if not env.values.get("KUBERNETES_SERVICE_HOST"):
        return None
    namespace = (machine.text(f"{SERVICE_ACCOUNT}/namespace") or "").strip()
    if not _LABEL.fullmatch(namespace):
        return None
    mounted = _KUBELET_MOUNT.search(machine.text("proc/self/mountinfo") or "")
    uid = env.get("FENCECTL_POD_UID", _UID, "a uid") or env.get("POD_UID", _UID, "a uid")
    if uid is not None and mounted is not None and uid != mounted["uid"]:
        # NB: another pod's uid would make this one look as if it were gone.
        env.warnings.append("the uid in the environment is not that of this pod; it is ignored")
    container = env.get("FENCECTL_CONTAINER", _LABEL, "a container's name")
    if mounted is not None:
        if container not in (None, mounted["container"]):
            env.warnings.append("FENCECTL_CONTAINER is not the container that this is; it is ignored")
        uid, container = mounted["uid"], mounted["container"]
    return _Pod(namespace, _pod_name(env, machine), uid, container)


def _pod_name(env: _Environment, machine: Machine) -> str | None:
    given = env.get("FENCECTL_POD_NAME", _NAME, "a pod's name") or env.get("POD_NAME", _NAME, "a pod's name")
    if given is not None:
        return given
    if (machine.text("etc/hosts") or "").startswith(_HOST_NETWORK):
        # NB: on the host's network the host name is the node's, and a pod of that name was never there.
        env.warnings.append("the pod uses its node's network and its name is not known; set FENCECTL_POD_NAME")
        return None
    if not env.values.get("HOSTNAME"):
        return machine.host if _NAME.fullmatch(machine.host) else None
    return env.get("HOSTNAME", _NAME, "a pod's name")
