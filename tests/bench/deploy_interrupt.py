"""
From the signal to the last release: 20 fences, 100 ms between us and a real API server.

    python -m tests.bench.deploy_interrupt [--times 5] [--fences 20]

Three ways in which CI ends a step: INT and KILL 7.5 s later to a deploy that is the entry process (`exec`); the same to
its shell, which does not pass the signal on; and the runner's own timing, INT, TERM after 7.5 s, KILL after 2.5 s more.
Prints how long each took, and what was still fenced at the end (nothing, or the run fails).
"""

from __future__ import annotations

import argparse
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from tests.support.clusters import Cluster, make_kustomization, make_node
from tests.support.program import environment
from tests.support.realcluster import RealCluster

LATENCY_S = 0.1
INT_TO_TERM_S, TERM_TO_KILL_S = 7.5, 2.5
CHUNK = 256 * 1024
LEASE = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"


class Distance:
    """A relay that keeps each byte for half of the latency in each direction, and makes connecting take it whole."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # NB: a loopback connect is answered by the kernel at once; the far one's handshake is paid here.
        time.sleep(LATENCY_S)
        server = socket.create_connection(("127.0.0.1", self._upstream))
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_carry, args=(client, server), daemon=True).start()
        _carry(server, client)


def _carry(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on in order, each half of the latency after it came."""
    queue: deque[tuple[float, bytes]] = deque()
    ready = threading.Condition()

    def deliver() -> None:
        while True:
            with ready:
                while not queue:
                    ready.wait()
                due_s, data = queue.popleft()
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return

    threading.Thread(target=deliver, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        with ready:
            queue.append((time.monotonic() + LATENCY_S / 2, data))
            ready.notify()


class Bench:
    """One real cluster, far away."""

    def __init__(self, cluster: RealCluster, folder: Path, fences: int) -> None:
        self.folder = folder
        self.near = Cluster("real", cluster, folder)
        self.distance = Distance(int(cluster.url.rpartition(":")[2]))
        self.kubeconfig = folder / "far.kubeconfig"
        text = cluster.kubeconfig(context="prod")
        self.kubeconfig.write_text(text.replace(cluster.url, f"https://127.0.0.1:{self.distance.port}"))
        self.nodes = [f"worker-{number:02}" for number in range(fences - 4)]
        for name in self.nodes:
            make_node(self.near, name)
        make_kustomization(self.near, "flux-system")
        make_kustomization(self.near, "infrastructure", applied_by=("flux-system", "flux-system"))
        make_kustomization(self.near, "apps", applied_by=("flux-system", "infrastructure"))

    def fenced(self) -> list[str]:
        """What is still fenced; the lease too."""
        found = []
        for path in ("/api/v1/nodes", "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"):
            for item in self.near.get(path)["items"]:
                if "fencectl.dev/holder" in (item["metadata"].get("annotations") or {}):
                    found.append(str(item["metadata"]["name"]))
        if self.near.get(LEASE)["spec"]["holderIdentity"]:
            found.append("lease")
        return found

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Start a deploy in a shell, as a step's `run:` does, and wait until its command runs."""
        began = self.folder / "began"
        began.unlink(missing_ok=True)
        deploy = [sys.executable, "-m", "fencectl", "deploy", "--drain-timeout", "0s"]
        deploy += ["--suspend", "kustomization/flux-system/apps"]
        for name in self.nodes:
            deploy += ["--node", name]
        deploy += ["--", "sh", "-c", f"touch {shlex.quote(str(began))}; sleep 600"]
        env = environment(
            self.kubeconfig, GITHUB_ACTIONS="true", GITHUB_RUN_ID="18093344127", GITHUB_RUN_ATTEMPT="1"
        )
        log = (self.folder / "log").open("wb")
        process = subprocess.Popen(
            ["bash", "-e", "-c", script.replace("DEPLOY", shlex.join(deploy))],
            env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        end_s = time.monotonic() + 120
        while not began.exists():
            if process.poll() is not None or time.monotonic() > end_s:
                raise SystemExit((self.folder / "log").read_text())
            time.sleep(0.01)
        return process

    def free_after(self, since_s: float, *, bound_s: float) -> float | None:
        """When everything was released, in seconds since then; None: not within the bound."""
        while time.monotonic() - since_s < bound_s:
            if not self.fenced():
                return time.monotonic() - since_s
            time.sleep(0.05)
        return None


def by_exec(bench: Bench) -> tuple[float | None, float]:
    """INT to the deploy itself, KILL 7.5 s later."""
    process = bench.start("exec DEPLOY")
    at_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    took_s = bench.free_after(at_s, bound_s=INT_TO_TERM_S)
    _kill(process)
    return took_s, 7.0


def by_shell(bench: Bench) -> tuple[float | None, float]:
    """The shell is killed; the deploy notices that it is an orphan."""
    process = bench.start("DEPLOY; true")
    _kill(process)
    return bench.free_after(time.monotonic(), bound_s=INT_TO_TERM_S), 7.0


def as_the_runner(bench: Bench) -> tuple[float | None, float]:
    """INT, 7.5 s, TERM, 2.5 s, KILL to the shell only; counted from its death."""
    process = bench.start("DEPLOY; true")
    process.send_signal(signal.SIGINT)
    try:
        process.wait(INT_TO_TERM_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    died_s = time.monotonic()
    try:
        process.wait(TERM_TO_KILL_S)
    except subprocess.TimeoutExpired:
        _kill(process)
    return bench.free_after(died_s, bound_s=INT_TO_TERM_S), 7.0


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait(10)


def main() -> int:
    """Measure, print, and fail where something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--fences", type=int, default=20)
    asked = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name, RealCluster(flux_crds=True) as cluster:
        bench = Bench(cluster, Path(name), asked.fences)
        for way in (by_exec, by_shell, as_the_runner):
            times = []
            for _ in range(asked.times):
                took_s, limit_s = way(bench)
                times.append("STILL FENCED" if took_s is None else f"{took_s:.1f} s")
                failed = failed or took_s is None or took_s > limit_s
                if took_s is None:
                    print((bench.folder / "log").read_text())
                    bench.free_after(time.monotonic(), bound_s=60)
            print(
                f"{way.__name__:<14} {asked.fences} fences, {LATENCY_S * 1000:.0f} ms: {', '.join(times)}",
                flush=True,
            )
        bench.distance.close()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
