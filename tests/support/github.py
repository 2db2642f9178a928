"""
A GitHub on loopback: a real HTTP server with the shapes of its REST API, and each of its faults in one line.

    with LoopbackGitHub() as github:
        github.job(RUN, 2, 51234567890, conclusion="cancelled")   # its attempt goes on, as a heal job would need
        github.fault("/jobs/", Fault(status=502))
        run_fencectl(environ | github.env())

An attempt that has a job is there, in progress, until `attempt` says otherwise. The plain run and its list of jobs
are those of the latest attempt, as on GitHub: whoever asks there gets a wrong answer.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Raw = dict[str, Any]

REPOSITORY = "acme/platform"
TOKEN = "ghs_l00pbackCanary7f41"  # planted: found in any output, it has leaked
HOSTED = {
    "labels": ["ubuntu-latest"],
    "runner_id": 1007,
    "runner_name": "GitHub Actions 1007",
    "runner_group_id": 0,
    "runner_group_name": "GitHub Actions",
}
SELF_HOSTED = {
    "labels": ["self-hosted", "linux"],
    "runner_id": 21,
    "runner_name": "builder-21",
    "runner_group_id": 3,
    "runner_group_name": "Default",
}
NO_RUNNER: Raw = {
    "labels": [],
    "runner_id": None,
    "runner_name": None,
    "runner_group_id": None,
    "runner_group_name": None,
    "steps": [],
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(slots=True)
class Fault:
    """
    What is answered instead. `body`: bytes and text as they stand, else JSON. `gate`: answers once that is set (and
    never when the server stops first). `cut`: bytes of the body that are sent before the connection is closed.
    `drop`: closes it without an answer. `times`: how often; None for always.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=dict)
    gate: threading.Event | None = None
    cut: int | None = None
    drop: bool = False
    times: int | None = None

    @property
    def raw(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


def rate_limited(status: int = 403, *, reset_at: datetime | None = None, retry_after: str | None = None) -> Fault:
    """The primary limit (with when it is reset) or the secondary one (with when to come again)."""
    headers = {"x-ratelimit-limit": "1000", "x-ratelimit-remaining": "0"} if reset_at else {}
    if reset_at:
        headers["x-ratelimit-reset"] = str(int(reset_at.timestamp()))
    if retry_after:
        headers["retry-after"] = retry_after
    words = "API rate limit exceeded" if reset_at else "You have exceeded a secondary rate limit"
    return Fault(status=status, headers=headers, body={"message": words})


def redirected(to: str, status: int = 301) -> Fault:
    return Fault(status=status, headers={"Location": to}, body={"message": "Moved Permanently", "url": to})


def hang() -> Fault:
    return Fault(gate=threading.Event())


class LoopbackGitHub:
    """
    Start with `start()` or as a context manager. `date_at` is GitHub's clock: None for the real one.

    `date_text`: sent as the Date header instead. `token`: the one that is accepted, None for none at all. `prefix`:
    of every path, as on an Enterprise Server. `page_size`: at most so many jobs on a page.
    """

    def __init__(
        self, *, repository: str = REPOSITORY, date_at: datetime | None = None, certificate: Path | None = None
    ) -> None:
        self.repository = repository
        self.date_at = date_at
        self.date_text: str | None = None
        self.token: str | None = TOKEN
        self.prefix = ""
        self.page_size = 100
        self.asked: list[Asked] = []
        self.not_modified = 0
        self.connections = 0
        self.stopping = threading.Event()
        self._attempts: dict[tuple[int, int], Raw] = {}
        self._jobs: dict[int, Raw] = {}
        self._aliases: dict[str, str] = {}
        self._faults: list[tuple[re.Pattern[str], Fault]] = []
        self._lock = threading.Lock()
        self._certificate = certificate
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._server = _Server(self, self._certificate)
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="loopback-github", daemon=True
        ).start()

    def stop(self) -> None:
        self.stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None

    @property
    def port(self) -> int:
        assert self._server is not None, "not started"
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The API's address."""
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}{self.prefix}"

    def env(self, **others: str) -> dict[str, str]:
        """What a step in GitHub Actions would have: for a subprocess, or for `GitHubSettings.from_environment`."""
        made = {
            "GITHUB_API_URL": self.url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_TOKEN": TOKEN,
        }
        if self._certificate is not None:
            made["SSL_CERT_FILE"] = str(self._certificate)
        return made | others

    # What is there.

    def attempt(
        self, run: int, attempt: int, *, status: Any = "completed", conclusion: Any = None, **others: Any
    ) -> Raw:
        """Put an attempt there, or change it; `others` replace fields of GitHub's object."""
        if conclusion is None and status == "completed":
            conclusion = "cancelled"
        with self._lock:
            raw = self._attempts.setdefault((run, attempt), self._new_attempt(run, attempt))
            raw |= {"status": status, "conclusion": conclusion} | others
            return raw

    def job(
        self,
        run: int,
        attempt: int,
        number: int,
        *,
        status: Any = "completed",
        conclusion: Any = None,
        ended_at: datetime | None = None,
        runner: Mapping[str, Any] = HOSTED,
        **others: Any,
    ) -> Raw:
        """Put a job there, or change it; its attempt is in progress unless `attempt` says otherwise."""
        if conclusion is None and status == "completed":
            conclusion = "cancelled"
        now = self.now()
        ended_at = ended_at or now - timedelta(hours=1)
        with self._lock:
            self._attempts.setdefault((run, attempt), self._new_attempt(run, attempt))
            raw: Raw = {
                "id": number,
                "run_id": run,
                "run_attempt": attempt,
                "run_url": f"{self.url}/repos/{self.repository}/actions/runs/{run}",
                "url": f"{self.url}/repos/{self.repository}/actions/jobs/{number}",
                "check_run_url": f"{self.url}/repos/{self.repository}/check-runs/{number}",
                "head_sha": "4f2a91c07be3d855" + "0" * 24,
                "head_branch": "main",
                "name": f"job {number}",
                "workflow_name": "deploy-prod",
                "status": status,
                "conclusion": conclusion,
                "created_at": _stamp(ended_at - timedelta(minutes=16)),
                "started_at": _stamp(ended_at - timedelta(minutes=15)),
                "completed_at": _stamp(ended_at) if status == "completed" else None,
                "steps": [{"name": "Set up job", "number": 1, "status": "completed", "conclusion": "success"}],
            }
            self._jobs[number] = raw | dict(runner) | others
            return self._jobs[number]

    def renamed(self, old: str, repository_id: int = 4711) -> None:
        """Let this repository have had another name: GitHub redirects from it to the one by number."""
        self.fault(rf"^/repos/{re.escape(old)}(/|$)", _Renamed(old, repository_id, self))
        self._aliases[f"/repositories/{repository_id}"] = f"/repos/{self.repository}"

    def fault(self, path: str, fault: Fault) -> Fault:
        """Answer this wherever the regular expression is found in the path; what was added last goes first."""
        with self._lock:
            self._faults.insert(0, (re.compile(path), fault))
        return fault

    def heal(self) -> None:
        """Take all faults away."""
        with self._lock:
            self._faults.clear()

    # What was asked.

    def paths(self) -> list[str]:
        """The paths that were asked for, in order, with their page where it is not the first."""
        with self._lock:
            return [
                a.path + (f"?page={a.query['page']}" if a.query.get("page", "1") != "1" else "")
                for a in self.asked
            ]

    def now(self) -> datetime:
        return self.date_at or datetime.now(UTC)

    # What the handler asks.

    def answer(self, asked: Asked) -> Fault:
        """Find the answer; a fault goes before everything else, as it would."""
        with self._lock:
            self.asked.append(asked)
            path = asked.path.removeprefix(self.prefix)
            for pattern, fault in self._faults:
                if pattern.search(path) and (fault.times is None or fault.times > 0):
                    if fault.times is not None:
                        fault.times -= 1
                    return fault.resolved(asked) if isinstance(fault, _Renamed) else fault
            if asked.authorization != f"Bearer {self.token}":
                return Fault(401, body={"message": "Bad credentials", "status": "401"})
            for alias, repository in self._aliases.items():
                if path == alias or path.startswith(f"{alias}/"):
                    path = repository + path[len(alias) :]
            return self._answer(path, asked.query)

    def _answer(self, path: str, query: Mapping[str, str]) -> Fault:
        root = f"/repos/{self.repository}"
        if path == root:
            return self._found({"id": 4711, "full_name": self.repository, "private": True})
        routes: tuple[tuple[str, Callable[..., Fault]], ...] = (
            (r"/actions/jobs/(\d+)", self._one_job),
            (r"/actions/runs", self._all_runs),
            (r"/actions/runs/(\d+)/attempts/(\d+)", self._one_attempt),
            (r"/actions/runs/(\d+)/attempts/(\d+)/jobs", lambda run, n: self._jobs_of(run, n, path, query)),
            (r"/actions/runs/(\d+)", lambda run: self._one_attempt(run, self._latest(run))),
            (r"/actions/runs/(\d+)/jobs", lambda run: self._jobs_of(run, self._latest(run), path, query)),
        )
        for pattern, make in routes:
            if match := re.fullmatch(re.escape(root) + pattern, path):
                return make(*map(int, match.groups()))
        return _NOT_FOUND

    def _found(self, value: Any, **headers: str) -> Fault:
        raw = json.dumps(value).encode()
        limits = {"x-ratelimit-limit": "1000", "x-ratelimit-remaining": "987", "x-ratelimit-resource": "core"}
        return Fault(200, {**limits, "ETag": f'W/"{sha256(raw).hexdigest()}"', **headers}, raw)

    def _one_job(self, number: int) -> Fault:
        return self._found(self._jobs[number]) if number in self._jobs else _NOT_FOUND

    def _all_runs(self) -> Fault:
        runs = {run for run, _ in self._attempts}
        latest = [self._attempts[run, self._latest(run)] for run in sorted(runs, reverse=True)]
        return self._found({"total_count": len(latest), "workflow_runs": latest[:1]})

    def _one_attempt(self, run: int, attempt: int) -> Fault:
        raw = self._attempts.get((run, attempt))
        return _NOT_FOUND if raw is None else self._found(raw)

    def _jobs_of(self, run: int, attempt: int, path: str, query: Mapping[str, str]) -> Fault:
        if (run, attempt) not in self._attempts:
            return _NOT_FOUND
        jobs = [raw for raw in self._jobs.values() if (raw["run_id"], raw["run_attempt"]) == (run, attempt)]
        size = min(int(query.get("per_page", "30")), self.page_size)
        page = int(query.get("page", "1"))
        last = max(1, -(-len(jobs) // size))
        links = [
            f'<{self.url}{path}?per_page={size}&page={number}>; rel="{name}"'
            for name, number in (("prev", page - 1), ("next", page + 1), ("last", last))
            if 1 <= number <= last and number != page
        ]
        found = {"total_count": len(jobs), "jobs": jobs[(page - 1) * size : page * size]}
        return self._found(found, **({"Link": ", ".join(links)} if links else {}))

    def _latest(self, run: int) -> int:
        return max((n for of_run, n in self._attempts if of_run == run), default=0)

    def _new_attempt(self, run: int, attempt: int) -> Raw:
        began = _stamp(self.now() - timedelta(minutes=80))
        return {
            "id": run,
            "name": "deploy-prod",
            "run_number": 42,
            "run_attempt": attempt,
            "event": "push",
            "status": "in_progress",
            "conclusion": None,
            "head_branch": "main",
            "created_at": began,
            "run_started_at": began,
            "updated_at": _stamp(self.now()),
            "jobs_url": f"{self.url}/repos/{self.repository}/actions/runs/{run}/attempts/{attempt}/jobs",
            "repository": {"id": 4711, "full_name": self.repository},
        }


class _Renamed(Fault):
    def __init__(self, old: str, repository_id: int, github: LoopbackGitHub) -> None:
        super().__init__()
        self._old, self._id, self._github = old, repository_id, github

    def resolved(self, asked: Asked) -> Fault:
        rest = asked.path.removeprefix(f"{self._github.prefix}/repos/{self._old}")
        query = "&".join(f"{key}={value}" for key, value in asked.query.items())
        to = f"{self._github.url}/repositories/{self._id}{rest}" + (f"?{query}" if query else "")
        return redirected(to)


_NOT_FOUND = Fault(404, body={"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, github: LoopbackGitHub, certificate: Path | None) -> None:
        self.github = github
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
            # NB: the handshake is left to the thread of the connection, or a silent client would stop all others.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self.github.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for request in tuple(self._open):
            with suppress(OSError):
                socket.socket.shutdown(request, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or does not trust the certificate, is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # NB: head and body in one segment: in two, the second waits 40 ms for the client's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name for it
        """Whoever wants to know looks into `asked`."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        github = self.server.github
        return format_datetime(github.now(), usegmt=True) if github.date_text is None else github.date_text

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        github = self.server.github
        fault = github.answer(Asked(parts.path, query, headers))
        if fault.gate is not None:
            while not fault.gate.wait(0.02):
                if github.stopping.is_set():
                    self.close_connection = True
                    return
        if fault.drop:
            self.close_connection = True
            return
        status, raw = fault.status, fault.raw
        if (
            status == 200
            and headers.get("if-none-match")
            and headers["if-none-match"] == fault.headers.get("ETag")
        ):
            status, raw = 304, b""
            github.not_modified += 1
        self.send_response(status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw if fault.cut is None else raw[: fault.cut])
        if fault.cut is not None:
            self.close_connection = True


def server_certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that is its own CA, its key beside it."""
    certificate = folder / "github.crt"
    command = (
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "7", "-subj", "/CN=loopback-github",
        "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"openssl is needed to make a certificate: {done.stderr.strip()}"
    return certificate


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
