"""
The first thing that runs in a payload's process: make it die with its parent, then become the command.

A program of its own instead of a hook between fork and exec, which is not safe beside threads. Linux only knows
how to bind a life to another one; elsewhere the command simply starts.
"""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1
COMMAND_NOT_FOUND = 127
COMMAND_NOT_EXECUTABLE = 126


def main(arguments: list[str]) -> int:
    """Run `PARENT COMMAND…`; returns only where the command could not be started."""
    parent, *command = arguments
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            # NB: it died before we could bind ourselves to it.
            return 128 + signal.SIGKILL
    try:
        os.execvp(command[0], command)  # noqa: S606 -- no shell is the point
    except FileNotFoundError:
        sys.stderr.write(f"fencectl: {command[0]}: command not found\n")
        return COMMAND_NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"fencectl: {command[0]}: {error.strerror}\n")
        return COMMAND_NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
