"""The program with a window of a moment instead of 40 s; everything else is as users run it. `python -m …impatient`."""

from __future__ import annotations

import os
import sys

from fencectl.core import recovery

recovery.WINDOW_S = float(os.environ.get("IMPATIENT_WINDOW_S", "0.2"))

from fencectl.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
