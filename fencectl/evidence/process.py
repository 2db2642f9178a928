"""
Whether a holder's process still runs on the machine we are on.

"Ended" is a proof on which fences of production are released, so it is said only where the very numbering of
processes that the holder recorded is in front of us: same machine, same boot, same pid namespace; or where that
machine was restarted since. Then neither fencectl nor any process of its payload's group may be left. All else,
and all that a journal leaves open, is unknown, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from fencectl.core.facts import Fact, State, Subject
from fencectl.core.identity import HolderKind
from fencectl.evidence.machine import HOST_NAMESPACE, INITIAL_PID_NAMESPACE, Machine, Process, Started

HOLDER_VARIABLE = "FENCECTL_HOLDER"
"""The variable by which every payload knows, and thus shows, whose it is."""

_MAX_PID = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h
_MAX_TEXT = 253


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a journal says about its holder's process; each None where it does not, or not usably."""

    machine_id: str | None
    boot_id: str | None
    pid_namespace: str | None
    host: str | None
    pid: int | None
    started: Started | None
    group: int | None
    group_started: Started | None
    bad_group: bool


@dataclass(frozen=True, slots=True)
class _Finding:
    state: State
    answer: str


def ask_process(subject: Subject, machine: Machine, *, at: datetime) -> Fact | None:
    """
    Look for a holder's process; None where its journal names no process and its identity none either.

    A job of GitHub Actions and a pod record their process too: on their own machine it is the best proof there is.
    """
    recorded = _recorded(subject)
    if subject.holder.kind is not HolderKind.LOCAL and (recorded.pid is None or recorded.machine_id is None):
        return None
    found = _elsewhere(recorded, machine) or _here(subject, recorded, machine)
    pid = subject.holder.pid if recorded.pid is None else recorded.pid
    host = recorded.host or subject.holder.host or "its machine"
    return Fact(found.state, f"has process {pid} on {host} ended?", found.answer, at)


def _elsewhere(recorded: _Recorded, machine: Machine) -> _Finding | None:
    """Say why the process cannot be looked for from here; None where it can."""
    if recorded.machine_id is None:
        return _unknown("no machine id is recorded")
    own = machine.machine_id()
    if own is None:
        return _unknown("this machine has no id, so it cannot be told from others")
    if own != recorded.machine_id:
        return _unknown(f"another machine: {recorded.host}" if recorded.host else "another machine")
    boot = machine.boot_id()
    if recorded.boot_id is None or boot is None:
        return _unknown("which start of this machine it ran in is not known")
    if boot != recorded.boot_id:
        return _other_boot(recorded, machine)
    namespace = machine.pid_namespace()
    if recorded.pid_namespace is None or namespace is None:
        return _unknown("its pid namespace, or ours, is not known")
    if namespace != recorded.pid_namespace:
        return _unknown("another pid namespace on this machine, where it cannot be seen")
    return None


def _other_boot(recorded: _Recorded, machine: Machine) -> _Finding:
    """
    Say what another boot id proves.

    NB: machine ids come in images. Machines cloned from one template, and containers of one image on any machine,
    share theirs, and another boot id then only says "another machine". So the host name must be the same, and
    neither side may be in a container (where a StatefulSet's pods share the host name as well).
    """
    if recorded.host is None or recorded.host != machine.host:
        name = recorded.host or "not recorded"
        return _unknown(f"the machine id is this machine's, but the host name is another ({name}): maybe a clone")
    if not {recorded.pid_namespace, machine.pid_namespace()} <= {INITIAL_PID_NAMESPACE, HOST_NAMESPACE}:
        return _unknown("another boot, in a container, whose machine id may be that of its image")
    return _Finding(State.ENDED, "gone: this machine was restarted since")


def _here(subject: Subject, recorded: _Recorded, machine: Machine) -> _Finding:
    if recorded.pid is None:
        return _unknown("no process id is recorded")
    if subject.holder.kind is HolderKind.LOCAL and subject.holder.pid != recorded.pid:
        return _unknown("the journal names another process than the identity")
    own = _own(recorded.pid, recorded.started, machine)
    if own.state is State.ALIVE:
        return own
    payload = _payload(subject, recorded, machine)
    # NB: a payload seen alive counts even where nothing is known of its parent.
    if payload.state is State.ALIVE or own.state is State.ENDED:
        return (
            payload if payload.state is not State.ENDED else _Finding(State.ENDED, f"{own.answer}{payload.answer}")
        )
    return own


def _own(pid: int, started: Started | None, machine: Machine) -> _Finding:
    """Look for fencectl itself."""
    process = machine.process(pid)
    if process is None:
        # NB: `/proc` may hide other users' processes (hidepid); the kernel does not deny that they exist.
        if machine.knows(pid):
            return _unknown(f"there is a process {pid}, but it is hidden from this user")
        return _Finding(State.ENDED, f"gone: there is no process {pid}")
    match _age(process.started, started):
        case _Age.LATER:
            return _Finding(State.ENDED, f"gone: process {pid} is a later one")
        case _Age.UNKNOWN:
            return _unknown(f"there is a process {pid}, but whether it is this one is not known: no start time")
        case _Age.SAME if process.alive:
            return _Finding(State.ALIVE, f"alive: process {pid} runs")
        case _Age.SAME:
            return _Finding(State.ENDED, f"gone: process {pid} is a zombie")


def _payload(subject: Subject, recorded: _Recorded, machine: Machine) -> _Finding:
    """
    Look for what the holder had started, which lives on when only fencectl is killed.

    A number is given to a new process only when no process and no group bears it any more (`alloc_pid`,
    kernel/pid.c). So a leader of a later start shows that the recorded group had emptied, and all who are in it
    now are strangers. With the leader gone, whoever is in the group is the payload's if it carries the holder's
    name or is older than the journal that named the group; of any other nobody can tell, and nothing is claimed.
    """
    group = recorded.group
    if recorded.bad_group:
        return _unknown("fencectl is gone, but its payload's group is not recorded as a number")
    if group is None:
        return _stray(subject, machine)
    leader = machine.process(group)
    if leader is not None:
        match _age(leader.started, recorded.group_started):
            case _Age.LATER:
                return _Finding(State.ENDED, f", and its payload's group {group} is a later one")
            case _Age.SAME if leader.alive:
                return _Finding(State.ALIVE, f"alive: process {group} of its payload runs")
            case _:
                pass
    if leader is None and machine.knows(group):
        return _unknown(f"fencectl is gone, but process {group} of its payload may run, hidden from this user")
    return _members(subject, group, leader, machine)


def _members(subject: Subject, group: int, leader: Process | None, machine: Machine) -> _Finding:
    # NB: twice, since a member that forks and ends between two looks at `/proc` is missed by one.
    seen = {process.pid: process for _ in range(2) for process in machine.members(group)}
    if leader is not None:
        seen[group] = leader
    alive = [process for process in seen.values() if process.alive]
    if any(_is_payload(subject, process, machine) for process in alive):
        return _Finding(State.ALIVE, f"alive: process {alive[0].pid} of its payload runs")
    if alive:
        return _unknown(
            f"fencectl is gone, but process {alive[0].pid} runs under the number of its payload's group, "
            "and whether it belongs to it is not known"
        )
    if seen:
        return _Finding(State.ENDED, f", and only zombies are left in its payload's group {group}")
    # NB: only the kernel sees a whole group at one moment.
    if machine.knows(-group):
        return _unknown(
            f"fencectl is gone, but processes of its payload's group {group} are hidden from this user"
        )
    return _Finding(State.ENDED, f", and nobody is left in its payload's group {group}")


def _is_payload(subject: Subject, process: Process, machine: Machine) -> bool:
    if machine.carries(process.pid, _name_tag(subject)):
        return True
    started_at, journal = machine.started_at(process), subject.journal
    return started_at is not None and journal is not None and started_at <= journal.at


def _stray(subject: Subject, machine: Machine) -> _Finding:
    """Look for a payload that was not recorded before its parent was killed: it carries the holder's name."""
    for process in machine.processes():
        if process.alive and machine.carries(process.pid, _name_tag(subject)):
            return _Finding(State.ALIVE, f"alive: process {process.pid} of its payload runs")
    return _Finding(State.ENDED, "")


def _name_tag(subject: Subject) -> str:
    return f"{HOLDER_VARIABLE}={subject.holder.identity}"


class _Age(Enum):
    SAME = "same"
    LATER = "later"
    UNKNOWN = "unknown"


def _age(seen: Started | None, recorded: Started | None) -> _Age:
    """Whether a process is the recorded one. An earlier start under the same number cannot be: clocks differ."""
    if isinstance(seen, int) and isinstance(recorded, int):
        return _Age.SAME if seen == recorded else _Age.LATER if seen > recorded else _Age.UNKNOWN
    if isinstance(seen, str) and isinstance(recorded, str):
        return _Age.SAME if seen == recorded else _Age.LATER
    return _Age.UNKNOWN


def _unknown(why: str) -> _Finding:
    return _Finding(State.UNKNOWN, why)


def _recorded(subject: Subject) -> _Recorded:
    journal = subject.journal
    # NB: another holder's journal (of a nested run, of a recoverer) tells of another process.
    own = journal is not None and journal.holder == subject.holder.identity
    details: Mapping[str, Any] = (journal.details or {}) if journal is not None and own else {}
    group = details.get("payload_group")
    number, group_started = (
        (group.get("id"), group.get("started")) if isinstance(group, Mapping) else (group, None)
    )
    return _Recorded(
        machine_id=_text(details.get("machine_id")),
        boot_id=_text(details.get("boot_id")),
        pid_namespace=_text(details.get("pid_namespace")),
        host=_text(details.get("host")),
        pid=_pid(details.get("pid"), least=1),
        started=_started(details.get("pid_started")),
        # NB: signals to the groups 0 and 1 go to our own and to everybody.
        group=_pid(number, least=2),
        bad_group=group is not None and _pid(number, least=2) is None,
        group_started=_started(group_started),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT else None


def _pid(value: Any, *, least: int) -> int | None:
    return value if type(value) is int and least <= value <= _MAX_PID else None


def _started(value: Any) -> Started | None:
    return value if type(value) is int or (isinstance(value, str) and value) else None
