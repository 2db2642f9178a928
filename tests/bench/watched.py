"""Follow a cluster for some seconds, as a process, and print what that cost: `python -m tests.bench.watched SECONDS`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from fencectl.cluster.changes import changes
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.core.profiles import FENCECTL


def main() -> None:
    """Count from the moment that the watches stand."""
    seconds = float(sys.argv[1])
    transport = resolve(None, None, os.environ, Path.home()).open()
    found = changes(transport, profile=FENCECTL, clock=SystemClock(), tick_s=1.0)
    next(found)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    started_s, cpu_s, hints = time.monotonic(), time.process_time(), 0
    while time.monotonic() - started_s < seconds:
        hints += bool(next(found))
    took_s = time.monotonic() - started_s
    cpu_ms_per_s = (time.process_time() - cpu_s) * 1000 / took_s
    sys.stdout.write(json.dumps({"seconds": took_s, "cpu_ms_per_s": cpu_ms_per_s, "hints": hints}) + "\n")


if __name__ == "__main__":
    main()
