"""An orderly end by a signal: noted wherever the main thread stands."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from fencectl.commands.signals import Signals
from fencectl.core.errors import ExitCode


@pytest.mark.timeout(20)
def test_signal_in_the_middle_of_a_wait_is_noted_and_does_not_lock_up() -> None:
    """A handler that set the event itself would wait for the lock that the interrupted wait holds."""
    signals = Signals(threading.Event())
    with signals.taken():
        with signals.stop._cond:  # type: ignore[attr-defined]  # as `wait` holds it, before and after it sleeps
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.stop.wait(10)
    assert signals.code is ExitCode.TERMINATED


def test_first_signal_decides_and_what_was_there_before_comes_back() -> None:
    """A second signal changes nothing; afterwards the caller's handlers are in force again."""
    before = signal.getsignal(signal.SIGHUP)
    signals = Signals(threading.Event())
    with signals.taken():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.stop.wait(10)
    assert signals.code is ExitCode.HANGUP
    assert signal.getsignal(signal.SIGHUP) is before
