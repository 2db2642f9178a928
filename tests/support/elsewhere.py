"""
The program with short times, as it runs on another machine: no process of a deploy here is one of its own.

`python -m tests.support.elsewhere`.
"""

from __future__ import annotations

import sys

from fencectl.evidence.machine import Machine
from tests.support import hasty

OTHER_MACHINE = "5e1f0000c4c5404aaa1f6d2a48adfda4"


def _another(_: Machine) -> str | None:
    return OTHER_MACHINE


Machine.machine_id = _another  # type: ignore[method-assign, assignment]
main = hasty.main

main = hasty.main

if __name__ == "__main__":
    sys.exit(main())
