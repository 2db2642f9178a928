"""The program with time to complete a word, however busy this machine is: `python -m tests.support.unhurried`."""

from __future__ import annotations

import sys

from fencectl import cli
from fencectl.commands import completing

completing.BUDGET_S = 60.0

if __name__ == "__main__":
    if sys.argv[1:2] == ["--for-kubectl"]:
        del sys.argv[1]
        sys.exit(cli.complete_for_kubectl())
    sys.exit(cli.main())
