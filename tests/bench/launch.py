"""
Start and measure processes from a small one.

NB: a child's peak memory counts what its parent had when it was forked (Linux takes over `maxrss` at exec), so a
large parent would hide how small a command is. Reads one JSON array per line, writes the measurement.
"""

import json
import os
import sys
import time

for line in sys.stdin:
    command = json.loads(line)
    null = os.open(os.devnull, os.O_RDWR)
    started_s = time.monotonic()
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, n) for n in range(3)]
    )
    _, status, usage = os.wait4(pid, 0)
    os.close(null)
    found = {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.monotonic() - started_s,
        "peak_mib": usage.ru_maxrss / 1024,
        "status": os.waitstatus_to_exitcode(status),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
