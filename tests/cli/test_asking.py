"""
The question at a terminal.

Aspects: ctrl-c at any moment of it.
"""

from __future__ import annotations

import os
import subprocess
import sys

# A signal between Python's last look for one and the read itself is what a plain `readline` sleeps through, so the
# moment is moved over it in small steps. The watchman ends a process that sleeps.
PROGRAM = """
import faulthandler, os, signal, sys, time
from fencectl.commands.asking import answer_to

faulthandler.dump_traceback_later(20, exit=True)
wanted, wants = os.pipe()
asker = os.getpid()
if os.fork() == 0:
    os.close(wants)
    while data := os.read(wanted, 6):
        end_ns = time.perf_counter_ns() + int(data)
        while time.perf_counter_ns() < end_ns:
            pass
        os.kill(asker, signal.SIGINT)
    os._exit(0)
os.close(wanted)
for step in range(3000):
    try:
        answer_to(lambda: os.write(wants, b"%06d" % (step * 50)))
    except KeyboardInterrupt:
        continue
    sys.exit("answered")
"""


def test_ctrl_c_ends_the_question_whenever_it_comes() -> None:
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], check=False, stdin=theirs, capture_output=True, text=True
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert (done.returncode, done.stderr.strip("\n")) == (0, "")
