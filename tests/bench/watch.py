"""
What `fences --watch` costs while a large cluster goes about its business.

    python -m tests.bench.watch [--nodes 5000] [--kustomizations 3000] [--events 40] [--seconds 30]

Half of the events are heartbeats of nodes, half changes of Kustomizations, none of which a report rests on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.fences import USER, environment
from tests.bench.fill import fill
from tests.bench.relay import Relay
from tests.support.clusters import KUSTOMIZE, NODES, Cluster, grant
from tests.support.realcluster import RealCluster


def main() -> None:
    """Fill, follow in silence, follow under events, print both."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.watch", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--kustomizations", type=int, default=3000)
    parser.add_argument("--crds", type=int, default=0)
    parser.add_argument("--events", type=float, default=40.0, help="a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fencectl-bench-"))
    with RealCluster(flux_crds=True) as real:
        cluster = Cluster("real", real, folder)
        grant(cluster, USER, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]})
        fill(cluster, nodes=options.nodes, kustomizations=options.kustomizations, other_crds=options.crds)
        with Relay(int(real.url.rpartition(":")[2])) as relay:
            env = environment(real, folder, relay)
            for rate in (0.0, options.events):
                found = _follow(cluster, env, rate=rate, options=options)
                sys.stdout.write(
                    f"{rate:4.0f} events/s: {found['cpu_ms_per_s']:.1f} ms of CPU a second, "
                    f"{found['hints']} hints in {found['seconds']:.0f} s\n"
                )
        cluster.close()


def _follow(
    cluster: Cluster, env: dict[str, str], *, rate: float, options: argparse.Namespace
) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.watched", str(options.seconds)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        started_s = time.monotonic()
        for number in itertools.count():
            due_s = started_s + (number / rate if rate else options.seconds)
            if due_s - started_s >= options.seconds:
                break
            time.sleep(max(0.0, due_s - time.monotonic()))
            change = {"metadata": {"labels": {"bench": str(number)}}}
            if number % 2:
                cluster.merge_patch(f"{NODES}/worker-{2 + number % (options.nodes - 2):05}", change)
            else:
                which = 2 + number % (options.kustomizations - 2)
                cluster.merge_patch(
                    f"{KUSTOMIZE}/namespaces/team-{which % 50:02}/kustomizations/app-{which:05}", change
                )
        found: dict[str, float] = json.loads(process.stdout.readline())
        return found


if __name__ == "__main__":
    main()
