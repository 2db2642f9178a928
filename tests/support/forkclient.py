"""
`fencectl` for a shell: asks the process that forks (`tests.support.prefork`) for a run with its own descriptors.

It is run by path, without site packages, so that it costs as little as it can.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main() -> int:
    """Hand everything over, and end as the run ends."""
    environ = dict(os.environ)
    control = socket.socket(fileno=int(environ.pop("FENCECTL_FORKS")))
    ours, theirs = socket.socketpair()
    asked = {"arguments": sys.argv[1:], "environ": environ, "cwd": os.getcwd(), "session": False}  # noqa: PTH109
    socket.send_fds(control, [json.dumps(asked).encode()], [0, 1, 2, theirs.fileno()])
    control.detach()
    theirs.close()
    with ours.makefile("r") as lines:
        lines.readline()  # its pid
        code = int(lines.readline())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
