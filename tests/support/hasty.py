"""
The program with short times, for tests of `deploy`: leases of 6 s, looks again after a moment, writes of 1 s.

Everything else is as users run it: `python -m tests.support.hasty`.
"""

from __future__ import annotations

import sys

from fencectl.core import recovery as decision
from fencectl.run import story

decision.WINDOW_S = 0.2
story.WRITE_S = 1.0
story.PAUSE_S = 0.2

from fencectl.commands import deploy  # noqa: E402  -- it takes times over as they are then

deploy.SHORTEST_LEASE_S = 3
deploy.LEASE_DURATION_S = 6
deploy.LOOK_AGAIN_S = 0.2

from fencectl.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
