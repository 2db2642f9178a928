"""Nothing but one observation, as a process: the read path without the command line and the report."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.observe import observe
from fencectl.core.profiles import FENCECTL


def main() -> None:
    """Read the current context; `KEY=VALUE` arguments set the page sizes of the reader."""
    from fencectl.cluster import observe as module

    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        setattr(module, name, int(value))
    connection = resolve(None, None, os.environ, Path.home())
    transport = connection.open()
    found = observe(transport, profile=FENCECTL, clock=SystemClock(), deadline_s=60, server=connection.server)
    transport.close()
    print(
        found.counts, [seen.ref.display for seen in (*found.leases, *found.nodes, *found.flux)], found.unreadable
    )


if __name__ == "__main__":
    main()
