"""
The program with short times: a window of a moment instead of 40 s, a lease of 6 s of its own instead of 30 s.

Everything else is as users run it: `python -m tests.support.impatient`.
"""

from __future__ import annotations

import sys

from fencectl.core import heartbeat
from fencectl.run import story

heartbeat.WINDOW_S = 0.2
heartbeat.LATE_WRITE_S = 0.2
story.WRITE_S = 2.0

from fencectl.run import recovery  # noqa: E402  -- it takes the time of a write over as it is then

recovery.LEASE_DURATION_S = 6

from fencectl.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
