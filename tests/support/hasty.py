"""
The program with short times, for tests of `deploy`: leases of 6 s, looks again after a moment, writes of 1 s.

A recovery of what such a deploy left watches for a moment, however long its lease was, and a report waits for no
late write. HASTY_UNWIND_S says for how long a deploy tries to release what it has fenced while nobody answers.
Everything else is as users run it: `python -m tests.support.hasty`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from fencectl.core import heartbeat
from fencectl.run import story

heartbeat.WINDOW_S = 0.2
heartbeat.LATE_WRITE_S = 0.2
story.WRITE_S = 1.0
story.PAUSE_S = 0.2

from fencectl.commands import deploy_planning, deploy_target, recover  # noqa: E402  -- they take times over as they are then
from fencectl.run import recovery, transaction  # noqa: E402

deploy_planning.SHORTEST_LEASE_S = 3
deploy_planning.LEASE_DURATION_S = 6
deploy_target.LOOK_AGAIN_S = 0.2
recovery.LEASE_DURATION_S = 6


def _moment(*_: Any) -> float:
    return 0.2


recover.RecoverRun._window_s = _moment  # type: ignore[method-assign, assignment]

from fencectl.cli import main as run  # noqa: E402


def main() -> int:
    """Run the program."""
    # NB: here, for what is above may have been done once, for many runs.
    transaction.UNWIND_S = float(os.environ.get("HASTY_UNWIND_S", transaction.UNWIND_S))
    return run()


if __name__ == "__main__":
    sys.exit(main())
