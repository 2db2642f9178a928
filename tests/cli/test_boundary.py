"""Aspects: errors as text · causes · foreign text · secrets · the unexpected · signals · pipes, disks, closed streams."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencectl import boundary
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from tests.cli.conftest import Program

StandIn = Callable[[str, Callable[[Any], ExitCode]], None]


def raising(error: BaseException, *, cause: BaseException | None = None) -> Callable[[Any], ExitCode]:
    def run(_options: Any) -> ExitCode:
        raise error from cause

    return run


def test_error_is_told_as_what_why_and_what_next(program: Program, stand_in: StandIn) -> None:
    """Three lines on stderr, the code of the error, nothing on stdout."""
    stand_in(
        "fences", raising(NotReadableError("prod did not answer", reason="refused", hint="kubectl get --raw /"))
    )
    ended = program("fences")
    assert ended.err == "error: prod did not answer\nreason: refused\nhint: kubectl get --raw /\n"
    assert (ended.status, ended.out) == (21, "")


def test_lines_that_an_error_does_not_have_are_left_out(program: Program, stand_in: StandIn) -> None:
    """No empty reason, no empty hint."""
    stand_in("fences", raising(FencectlError("something is so")))
    ended = program("fences")
    assert (ended.status, ended.err) == (1, "error: something is so\n")


def test_causes_are_shown_with_v_and_end(program: Program, stand_in: StandIn) -> None:
    """Also where a chain of causes bites its own tail, and where a cause has no words."""
    deep = ValueError("deep \x1b[31m")
    between = OSError(111, "Connection refused")
    between.__cause__ = deep
    deep.__context__ = KeyError()
    deep.__context__.__context__ = between
    stand_in("fences", raising(NotReadableError("prod did not answer"), cause=between))
    assert program("fences").err == "error: prod did not answer\n"
    assert program("fences", "-v").err == (
        "error: prod did not answer\n"
        "cause: ConnectionRefusedError: [Errno 111] Connection refused\n"
        "cause: ValueError: deep \\x1b[31m\n"
    )


def test_foreign_text_in_an_error_is_escaped(program: Program, stand_in: StandIn) -> None:
    """A server's message can neither write lines of its own nor move the cursor."""
    hostile = "x\n::error::y\r\x1b]0;z\x07\u202e"
    stand_in("fences", raising(NotReadableError(hostile, reason=hostile, hint=hostile)))
    ended = program("fences")
    assert len(ended.err.splitlines()) == 3
    assert not any(line.startswith("::") for line in ended.err.splitlines())
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(ended.err)


def test_the_unexpected_is_one_line_and_a_hint(program: Program, stand_in: StandIn) -> None:
    """Its text may quote anything, so only its kind is told."""
    stand_in("fences", raising(KeyError("spec of a Secret")))
    ended = program("fences")
    assert ended.status == 1
    assert ended.err == (
        "error: unexpected KeyError, please report it\n"
        "hint: run `fencectl` with -v again: it shows where, for the report\n"
    )


def test_traceback_is_shown_with_v_marked_as_foreign_and_without_secrets(
    program: Program, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of it can begin a workflow command, and no credential is in it."""
    monkeypatch.setenv("GH_TOKEN", "from-the-environment")
    stand_in(
        "fences",
        raising(RuntimeError("a\n::error::b\nAuthorization: Bearer abcdefgh12345678 from-the-environment")),
    )
    ended = program("fences", "-v")
    first, *others = ended.err.splitlines()
    assert (ended.status, first) == (1, "error: unexpected RuntimeError, please report it")
    assert all(line.startswith("| ") for line in others)
    assert "| ::error::b" in others
    assert "Traceback" in others[0]
    assert "abcdefgh12345678" not in ended.err
    assert "from-the-environment" not in ended.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln", "Authorization: Bearer [hidden]"),
        ("token=abcdefghijkl&x=1", "token=[hidden]&x=1"),
        ("'password': 'hunter2hunter2'", "'password': '[hidden]'"),
        ("key ghs_0123456789abcdef0123 end", "key [hidden] end"),
        ("github_pat_0123456789abcdefgh", "[hidden]"),
        ("jwt eyJhbGciOiJub25l.eyJzdWIiOiJ4In0.sig!", "jwt [hidden]!"),
        ("https://user:secret@example.com/x", "https://[hidden]@example.com/x"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a [hidden] b"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "[hidden]"),
        ("node/worker-2 was cordoned by kubectl", "node/worker-2 was cordoned by kubectl"),
    ],
)
def test_credentials_are_hidden_and_the_rest_stays(text: str, shown: str) -> None:
    """By their looks: headers, keys, tokens of GitHub, JWTs, URLs with a password, PEM."""
    assert boundary.redacted(text) == shown


def test_ctrl_c_ends_with_130_and_says_nothing(program: Program, stand_in: StandIn) -> None:
    """Whoever pressed it knows."""
    stand_in("fences", raising(KeyboardInterrupt()))
    ended = program("fences")
    assert (ended.status, ended.out, ended.err) == (130, "", "")


def test_end_of_input_at_a_question_is_no_answer(program: Program, stand_in: StandIn) -> None:
    """Nobody said yes."""
    stand_in("demo", raising(EOFError()))
    ended = program("demo")
    assert (ended.status, ended.err) == (2, "error: the answer was not given: end of input\n")


def test_broken_pipe_of_something_else_is_unexpected(program: Program, stand_in: StandIn) -> None:
    """A socket's broken pipe must not pass for a reader that left."""
    stand_in("fences", raising(BrokenPipeError(32, "Broken pipe")))
    ended = program("fences")
    assert ended.status == 1
    assert ended.err.startswith("error: unexpected BrokenPipeError, please report it\n")


def test_signals_that_the_caller_ignores_stay_ignored() -> None:
    """`nohup fencectl …` survives the terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    boundary.run(lambda _session: 0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


COMMAND = """
import sys, types
from fencectl import cli, commands
module = types.ModuleType("fencectl.commands.fences")
def run(options):
{body}
module.run = run
sys.modules[module.__name__] = commands.fences = module
sys.argv[1:] = ["fences"]
sys.exit(cli.main())
"""


def program_with(body: str, *, measured: bool = True, **options: Any) -> subprocess.Popen[str]:
    """Start the program in a process of its own, with this for a command."""
    script = COMMAND.format(body=textwrap.indent(textwrap.dedent(body).strip(), "    "))
    # NB: containers set PYTHONUNBUFFERED, and then nothing is ever left for the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if not measured:
        environment = {name: value for name, value in environment.items() if not name.startswith("COV")}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, **options}
    return subprocess.Popen([sys.executable, "-c", script], text=True, cwd=Path(__file__).parents[2], **options)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.HANGUP),
        (signal.SIGINT, ExitCode.INTERRUPTED),
    ],
)
def test_signal_unwinds_and_then_ends_with_its_code(number: int, code: ExitCode) -> None:
    """`finally` runs, also when the signal comes twice, and only then the status says which one it was."""
    process = program_with(
        f"""
        import os, time
        try:
            print("up", flush=True)
            time.sleep(60)
        finally:
            if {int(number)} != {int(signal.SIGINT)}:
                os.kill(os.getpid(), {int(number)})
            print("unwound", flush=True)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (code, "unwound\n", "")


def test_reader_that_leaves_ends_the_program_as_it_ends_kubectl() -> None:
    """`fencectl fences | head -1`: SIGPIPE, no traceback, and never 0, because the report was cut off."""
    process = program_with("for _ in range(100_000): print('node/worker-2')\nreturn 0")
    assert process.stdout is not None
    assert process.stdout.readline() == "node/worker-2\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=20) == -signal.SIGPIPE
    process.stderr.close()


def test_reader_that_never_was_ends_it_the_same_way() -> None:
    """Here the pipe breaks only when the last lines are written out, at the very end."""
    read, write = os.pipe()
    os.close(read)
    process = program_with("print('no fence is held')\nreturn 0", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("buffered", [False, True])
def test_full_disk_is_told_and_is_no_success(buffered: bool, tmp_path: Path) -> None:
    """A report that could not be written must not end in 0, nor in a status that the interpreter makes up."""
    with (tmp_path / "report").open("w") as report:
        process = program_with(
            f"sys.stdout.reconfigure(line_buffering={not buffered})\nprint('none')\nreturn 0",
            stdout=report,
            measured=False,  # coverage could not write its file either
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),  # as a disk that is full
        )
        _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert err == (
        "error: the output could not be written whole\n"
        "reason: File too large\n"
        "hint: what is missing is not known: run it again\n"
    )


def test_closed_streams_are_filled_so_that_no_connection_gets_their_number() -> None:
    """`fencectl fences >&- 2>&-` ends with its status, and the next descriptor is not 1."""
    process = program_with(
        """
        import os
        descriptor = os.open("/", os.O_RDONLY)
        print("nobody reads this")
        return 20 if descriptor > 2 else 1
        """,
        stdout=None,
        stderr=None,
        preexec_fn=lambda: os.closerange(0, 3),
    )
    assert process.wait(timeout=20) == 20


def test_letters_that_the_terminal_has_not_are_spelled_out() -> None:
    """A name in another script does not end a report with a UnicodeEncodeError."""
    process = program_with(
        "print('caf\\u00e9 \\u2713')\nreturn 0", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "caf\\xe9 \\u2713\n", "")
