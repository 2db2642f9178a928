"""
The one boundary: whatever a command ends with becomes text on stderr and an exit status, here.

A traceback is shown with `-v` only, escaped and without secrets. Interrupts unwind first: TERM and HUP are
raised like ctrl-c is.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from fencectl.core.errors import ExitCode, FencectlError


class Session:
    """What the boundary must know of a run even when the command line could not be parsed to its end."""

    __slots__ = ("verbosity",)

    def __init__(self) -> None:
        self.verbosity = 0


class Signalled(BaseException):
    """A TERM or HUP. Not an `Exception`, so that nothing on the way takes it for a failure of its own."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SIGNALS = {"SIGTERM": ExitCode.TERMINATED, "SIGHUP": ExitCode.HANGUP}


def run(command: Callable[[Session], int]) -> int:
    """Run `command`, say what went wrong, and return the exit status."""
    _open_standard_streams()
    _take_signals()
    session = Session()
    try:
        try:
            code = command(session)
        finally:
            _flush_stdout()
    except FencectlError as error:
        _tell(_sentences(error, session=session))
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Signalled as stopped:
        return stopped.code
    except EOFError:
        _tell(["error: the answer was not given: end of input"])
        return ExitCode.USAGE
    except BrokenPipeError as error:
        if _somebody_reads():
            return _unexpected(error, session=session)
        _die_of_broken_pipe()
    except Exception as error:  # noqa: BLE001  the one place where everything ends
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            _tell(_sentences(_output_lost(error), session=session))
            return ExitCode.UNEXPECTED
        return _unexpected(error, session=session)
    return code


def _open_standard_streams() -> None:
    """
    Fill closed standard descriptors (`>&-`), and let no foreign letter break the output.

    NB: with descriptor 1 closed, the next socket would get that number, and a child would print into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _take_signals() -> None:
    """Raise TERM and HUP in the main thread, once each; what the caller ignores (nohup) stays ignored."""
    for name, code in _SIGNALS.items():
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is not signal.SIG_DFL:
            continue

        def stop(number: int, _frame: FrameType | None, code: ExitCode = code) -> NoReturn:
            # NB: a second one must not abort the unwinding that the first one began.
            signal.signal(number, signal.SIG_IGN)
            raise Signalled(code)

        signal.signal(number, stop)


def _flush_stdout() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _output_lost(error: OSError) -> FencectlError:
    """
    Say that the output is not whole, and give up on the rest.

    NB: what is still in the buffer would fail once more when the interpreter ends, with a status of its own.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return FencectlError(
        "the output could not be written whole",
        reason=error.strerror,
        hint="what is missing is not known: run it again",
    )


def _somebody_reads() -> bool:
    """Whether the readers of stdout and stderr are still there: a broken pipe may also be a socket's."""
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, select.POLLERR)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def _die_of_broken_pipe() -> NoReturn:
    """
    Die as kubectl, grep and every other filter dies when its reader leaves: of SIGPIPE, quietly.

    NB: never 0. A report that was cut off must not pass for "no fence is held".
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)  # only where the caller blocks the signal


def _unexpected(error: Exception, *, session: Session) -> int:
    from fencectl import clihelp

    lines = [f"error: unexpected {type(error).__name__}, please report it"]
    if session.verbosity:
        lines += _traceback(error)
    else:
        lines.append(f"hint: run `{clihelp.program()}` with -v again: it shows where, for the report")
    _tell(lines)
    return ExitCode.UNEXPECTED


def _sentences(error: FencectlError, *, session: Session) -> list[str]:
    lines = [f"error: {_shown(error.sentence)}"]
    if error.reason:
        lines.append(f"reason: {_shown(error.reason)}")
    if error.hint:
        lines.append(f"hint: {_shown(error.hint)}")
    if session.verbosity:
        lines += [
            f"cause: {type(cause).__name__}: {_shown(redacted(str(cause)))}"
            for cause in _causes(error)
            if str(cause)
        ]
    return lines


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _traceback(error: BaseException) -> list[str]:
    """The traceback, each line marked as foreign, so that none of them can begin a workflow command."""
    import traceback

    text = redacted("".join(traceback.format_exception(error)))
    return [f"| {_shown(line)}" for line in text.splitlines()]


def _shown(text: str) -> str:
    from fencectl.report.escape import visible

    return visible(text)


_SECRETS = re.compile(
    r"""
      (?P<key>\b(?:authorization|bearer|basic|token|password|passwd|secret|api[-_]?key)\b["']?\s*[:=]?\s*["']?(?:bearer\s+|basic\s+)?)
      (?P<value>[A-Za-z0-9+/_.=~-]{8,})
    | \bgh[pousr]_[A-Za-z0-9]{16,} | \bgithub_pat_\w{16,}
    | \beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?
    | -----BEGIN\ [A-Z ]+-----.*?(?:-----END\ [A-Z ]+-----|\Z)
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.ASCII,
)


def redacted(text: str) -> str:
    """Take out whatever looks like a credential, and the values of the variables that hold one."""
    for name in ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        if len(value := os.environ.get(name, "")) >= 8:
            text = text.replace(value, "[hidden]")
    return _SECRETS.sub(lambda found: f"{found['key'] or ''}[hidden]", text)


def _tell(lines: list[str]) -> None:
    """Write to stderr; when nobody reads it, the status still tells."""
    with suppress(OSError):
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
