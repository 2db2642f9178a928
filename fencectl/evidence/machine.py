"""
The machine we are on and its processes: the ids that tell it from others, and who is alive on it.

Whatever cannot be known is None, and never taken for "gone": a `/proc` that hides other users' processes, one of
another pid namespace, and the clock of another time namespace each make a live process look as if it had ended.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

Started = int | str
"""When a process started: clock ticks since boot (Linux), or UTC as text to the second (macOS)."""

HOST_NAMESPACE = "host"
"""The pid namespace of a system that has only one."""

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's first pid namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h, the same on every machine."""

PROGRAM_TIMEOUT_S = 5.0
_MACHINE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)
_PLATFORM_UUID = re.compile(r'"IOPlatformUUID"\s*=\s*"([^"]+)"')
_LSTART = "%a %b %d %H:%M:%S %Y"
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Process:
    """
    One process, as the kernel lists it. `alive` False: it has ended and only waits for its parent to take note.

    `started` is None where it cannot be compared with what another process would read.
    """

    pid: int
    group: int
    alive: bool
    started: Started | None


def kernel_knows(pid: int) -> bool:
    """
    Ask the kernel whether a process exists, zombies included; below zero: whether the process group has any.

    NB: unlike `/proc`, this also sees what `hidepid` hides, and a whole group at one moment.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def run_program(arguments: Sequence[str]) -> str | None:
    """Run a program of the system and return what it said; None where it failed or took too long."""
    import subprocess

    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PROGRAM_TIMEOUT_S,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else None


@dataclass(frozen=True, slots=True)
class Machine:
    """
    A machine as one of its processes sees it; by default the one we are on.

    `root`: where `/etc` and `/proc` are. `knows` and `program`: see `kernel_knows` and `run_program`.
    """

    root: Path = Path("/")
    system: str = sys.platform
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=lambda: os.uname().nodename)
    knows: Callable[[int], bool] = kernel_knows
    program: Callable[[Sequence[str]], str | None] = run_program

    def machine_id(self) -> str | None:
        """What tells this machine from others; None where nobody has set it up."""
        if self.system == "darwin":
            match = _PLATFORM_UUID.search(self.program(["ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]) or "")
            return match.group(1).lower() if match and _UUID.fullmatch(match.group(1)) else None
        for name in ("etc/machine-id", "var/lib/dbus/machine-id"):
            found = (self.text(name) or "").strip()
            # NB: `uninitialized` is what an image carries before its first boot, zeros what some installers write.
            if _MACHINE_ID.fullmatch(found) and found.strip("0"):
                return found
        return None

    def boot_id(self) -> str | None:
        """What tells this start of the machine from earlier ones."""
        if self.system == "darwin":
            # NB: kern.boottime moves whenever the clock is set, and would make one boot look like two.
            found = self.program(["sysctl", "-n", "kern.bootsessionuuid"]) or ""
        else:
            found = self.text("proc/sys/kernel/random/boot_id") or ""
        found = found.strip().lower()
        return found if _UUID.fullmatch(found) else None

    def pid_namespace(self) -> str | None:
        """In which numbering of processes this one runs; None where `/proc` does not belong to it."""
        if self.system == "darwin":
            return HOST_NAMESPACE
        try:
            # NB: after `unshare --pid` without a new mount, `/proc` still numbers processes as outside.
            if str((self.root / "proc/self").readlink()) != str(self.pid):
                return None
            return str((self.root / "proc/self/ns/pid").readlink())
        except OSError:
            return None

    def process(self, pid: int) -> Process | None:
        """One process, alive or zombie; None where none is to be seen."""
        if self.system == "darwin":
            return next(self._listed("-p", str(pid)), None)
        return self._read(pid, own_clock=self._own_boot_clock())

    def members(self, group: int) -> tuple[Process, ...]:
        """Every process of a process group that is to be seen, zombies included."""
        return tuple(process for process in self.processes() if process.group == group)

    def processes(self) -> Iterator[Process]:
        """Every process that is to be seen."""
        if self.system == "darwin":
            yield from self._listed("-ax")
            return
        try:
            names = [entry.name for entry in os.scandir(self.root / "proc") if entry.name.isdecimal()]
        except OSError:
            return
        own_clock = self._own_boot_clock()
        for name in names:
            process = self._read(int(name), own_clock=own_clock)
            if process is not None:
                yield process

    def started_at(self, process: Process) -> datetime | None:
        """When a process started, on the wall clock (which may have been set since)."""
        if isinstance(process.started, str):
            return _lstart(process.started)
        booted = re.search(r"^btime ([0-9]{1,12})$", self.text("proc/stat") or "", re.MULTILINE)
        if process.started is None or booted is None:
            return None
        ticks_s = process.started / os.sysconf("SC_CLK_TCK")
        try:
            return datetime.fromtimestamp(int(booted.group(1)), UTC) + timedelta(seconds=ticks_s)
        except (ValueError, OverflowError, OSError):
            return None

    def carries(self, pid: int, variable: str) -> bool:
        """Whether a process was started with `NAME=value` in its environment, as far as it may be read."""
        if self.system == "darwin":
            return False
        try:
            environment = (self.root / "proc" / str(pid) / "environ").read_bytes()
        except OSError:
            return False
        return variable.encode() in environment.split(b"\0")

    def describe_group(self, group: int) -> dict[str, Started | None]:
        """What a journal records of a payload's process group: its number, and when its leader started."""
        leader = self.process(group)
        return {"id": group, "started": leader.started if leader else None}

    def text(self, name: str) -> str | None:
        """A small file of the system; None where it is not there or not for us."""
        try:
            return (self.root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def _read(self, pid: int, *, own_clock: bool) -> Process | None:
        stat = self.text(f"proc/{pid}/stat")
        if stat is None:
            return None
        # NB: the second field is the program's name in parentheses, and may hold spaces and parentheses itself.
        fields = stat.rpartition(")")[2].split()
        try:
            group, threads, started = int(fields[2]), int(fields[17]), int(fields[19])
        except (IndexError, ValueError):
            return None
        # NB: a main thread may end before the others: it is listed as a zombie while the process goes on.
        alive = fields[0] not in _DEAD or threads > 1
        return Process(pid, group, alive, None if own_clock else started)

    def _own_boot_clock(self) -> bool:
        """Whether this process counts the time since boot otherwise than its machine (a time namespace)."""
        offsets = self.text("proc/self/timens_offsets") or ""
        own = re.search(r"^boottime\s+(-?[0-9]+)\s+(-?[0-9]+)$", offsets, re.MULTILINE)
        return own is not None and any(int(part) for part in own.groups())

    def _listed(self, *selection: str) -> Iterator[Process]:
        said = self.program(["ps", *selection, "-o", "pid=,pgid=,stat=,lstart="]) or ""
        for line in said.splitlines():
            parts = line.split(None, 3)
            if len(parts) == 4 and parts[0].isdecimal() and parts[1].isdecimal():
                started = " ".join(parts[3].split())
                yield Process(int(parts[0]), int(parts[1]), not parts[2].startswith("Z"), started)


def _lstart(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _LSTART).replace(tzinfo=UTC)
    except ValueError:
        return None
