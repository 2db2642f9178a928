"""
What `fences` costs on a large cluster, beside what it is compared with.

    python -m tests.bench.fences [--nodes 5000] [--kustomizations 3000] [--crds 120] [--rounds 7] [--json FILE]

Needs the real API server (tests/cluster/build). `--serve` fills the cluster and keeps it up instead, and prints
the KUBECONFIG line.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from pathlib import Path

from tests.bench.fill import fill
from tests.bench.measure import Launcher, RequestCount, Subject, as_json, measure, table
from tests.bench.relay import Relay
from tests.support.clusters import Cluster, grant
from tests.support.realcluster import RealCluster, find_kubectl, kubeconfig_text

USER = "reporter"
_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [reporter]}
- {level: None}
"""


def main() -> None:
    """Fill, measure, print."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="fencectl-bench-"))
    policy, audit_log = folder / "audit.yaml", folder / "audit.log"
    policy.write_text(_AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    with RealCluster(flux_crds=True, api_server_flags=flags) as real:
        cluster = Cluster("real", real, folder)
        grant(cluster, USER, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]})
        _say(f"filling: {options.nodes} nodes, {options.kustomizations} Kustomizations, {options.crds} other CRDs")
        fill(cluster, nodes=options.nodes, kustomizations=options.kustomizations, other_crds=options.crds)
        with Relay(int(real.url.rpartition(":")[2])) as relay:
            env = environment(real, folder, relay)
            if options.serve:
                sys.stdout.write(f"KUBECONFIG={env['KUBECONFIG']}\n")
                sys.stdout.flush()
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
                return
            count = RequestCount(audit_log)
            subjects = _subjects(options)
            _say(f"measuring {len(subjects)} commands, {options.rounds} rounds")
            with Launcher(env, relay=relay, count=count) as launcher:
                measure(subjects, rounds=options.rounds, launcher=launcher)
        cluster.close()
    unit_s = subjects[0].median(lambda run: run.cpu_s)
    sys.stdout.write(f"{platform.python_version()}, {os.cpu_count()} CPUs, medians; ratio to `import typer`\n")
    sys.stdout.write(table(subjects, unit_s=unit_s) + "\n")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(as_json(subjects), indent=2) + "\n")


def _subjects(options: argparse.Namespace) -> list[Subject]:
    python = sys.executable
    fencectl = [python, "-m", "fencectl"]
    look = [python, "-m", "tests.bench.look"]
    subjects = [
        Subject("import typer", [python, "-c", "import typer"]),
        Subject("fencectl --help", [*fencectl, "--help"]),
        Subject("one observation, nothing else", look),
    ]
    if options.pages:
        for metadata in (500, 1000, 2500, 5000):
            subjects.append(Subject(f"... nodes in pages of {metadata}", [*look, f"METADATA_PAGE={metadata}"]))
        for flux in (250, 1000, 3000):
            subjects.append(Subject(f"... Flux objects in pages of {flux}", [*look, f"PAGE={flux}"]))
        return subjects
    return [
        *subjects,
        Subject("fencectl fences -o json", [*fencectl, "fences", "-o", "json"]),
        Subject("fencectl fences (text)", [*fencectl, "fences"]),
        # Half a minute each: once in a while is enough to compare.
        Subject("kubectl get nodes -o json", [find_kubectl(), "get", "nodes", "-o", "json"], every=5),
    ]


def environment(real: RealCluster, folder: Path, relay: Relay) -> dict[str, str]:
    """Make the environment of a measured process: a kubeconfig that goes through the relay, and little else."""
    from base64 import b64encode

    path = folder / "reporter.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(
        kubeconfig_text(
            server=f"https://127.0.0.1:{relay.port}",
            context="bench",
            user=USER,
            entry={"token": real.token(USER)},
            ca_data=b64encode(real.ca_pem.encode()).decode(),
        )
    )
    root = Path(__file__).resolve().parents[2]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "KUBECONFIG": str(path),
        "PYTHONPATH": str(root),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fences", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--kustomizations", type=int, default=3000)
    parser.add_argument("--crds", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--pages", action="store_true", help="compare page sizes of the reader instead")
    parser.add_argument("--serve", action="store_true", help="keep the filled cluster up instead")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stderr.write(f"bench: {text}\n")


if __name__ == "__main__":
    main()
