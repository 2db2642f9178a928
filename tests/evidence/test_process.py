"""
Process evidence on made-up machines: each way in which a live process can look gone.

Aspects: another machine · equal host names · cloned machine ids · another boot · containers · pid namespaces ·
reused pids · hidden processes · zombies · time namespaces · what the journal does not say · the payload's group.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fencectl.core.facts import State
from fencectl.evidence.machine import Machine
from fencectl.evidence.process import ask_process
from tests.evidence.machines import (
    CONTAINER_NAMESPACE,
    GITHUB,
    LOCAL,
    MACHINE_ID,
    OTHER_BOOT,
    OTHER_ID,
    POD,
    TICKS,
    Tree,
    journalled,
    recorded,
    subject,
)
from tests.support.objects import NOW

JUST_BEFORE, AFTER = -10 * TICKS, 3600 * TICKS
AT_NOW = 86400 * TICKS
"""The clock ticks since boot at which the journal was written."""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def ask(
    tree: Tree, details: dict[str, Any] | None, *, identity: str = LOCAL, host: str = "build-7"
) -> tuple[State, str]:
    fact = ask_process(subject(details, identity=identity), tree.machine(host=host), at=NOW)
    assert fact is not None
    assert fact.at == NOW
    return fact.state, fact.answer


def test_process_with_the_recorded_start_is_alive(tree: Tree) -> None:
    """Same machine, boot, pid namespace, pid and start time: it is that process."""
    tree.add(4711, group=4711, started=8_000_000)
    assert ask(tree, recorded()) == (State.ALIVE, "alive: process 4711 runs")


def test_process_that_is_nowhere_is_ended(tree: Tree) -> None:
    """Neither `/proc` nor the kernel knows it, on the very machine and boot and in the very namespace."""
    assert ask(tree, recorded()) == (State.ENDED, "gone: there is no process 4711")


def test_question_names_the_process_and_its_host(tree: Tree) -> None:
    """A report shows what was asked."""
    fact = ask_process(subject(recorded()), tree.machine(), at=NOW)
    assert fact is not None
    assert fact.question == "has process 4711 on build-7 ended?"


@pytest.mark.parametrize("state", ["S", "R", "D", "T", "t", "I"])
def test_process_in_any_state_but_dead_is_alive(tree: Tree, state: str) -> None:
    """A stopped process may be continued and write."""
    tree.add(4711, group=4711, started=8_000_000, state=state, name="a) Z 1 (b")
    assert ask(tree, recorded())[0] is State.ALIVE


# ------------------------------------------------------------------------------------------- another machine


@pytest.mark.parametrize("boot_id", ["the same", OTHER_BOOT])
def test_another_machine_of_the_same_host_name_is_unknown(tree: Tree, boot_id: str) -> None:
    """Host names repeat: only the machine id tells machines apart."""
    details = recorded(machine_id=OTHER_ID)
    if boot_id != "the same":
        details["boot_id"] = boot_id
    assert ask(tree, details) == (State.UNKNOWN, "another machine: build-7")


@pytest.mark.parametrize("host", [None, 7, "", "x" * 300])
def test_another_machine_without_a_usable_name_is_unknown(tree: Tree, host: object) -> None:
    """The answer then names none."""
    assert ask(tree, recorded(machine_id=OTHER_ID, host=host)) == (State.UNKNOWN, "another machine")


@pytest.mark.parametrize("machine_id", [None, "", 7, ["a"]])
def test_absent_machine_id_in_the_journal_is_unknown(tree: Tree, machine_id: object) -> None:
    """Images without a machine id are common; then nothing ties the process to this machine."""
    assert ask(tree, recorded(machine_id=machine_id)) == (State.UNKNOWN, "no machine id is recorded")


@pytest.mark.parametrize("found", ["", "uninitialized\n", "0" * 32, "not an id", MACHINE_ID[:-1]])
def test_machine_without_an_id_cannot_tell(tree: Tree, found: str) -> None:
    """What an image carries before its first boot is no id."""
    tree.write("etc/machine-id", found)
    state, answer = ask(tree, recorded())
    assert (state, answer) == (State.UNKNOWN, "this machine has no id, so it cannot be told from others")


def test_journal_and_machine_without_ids_do_not_match(tree: Tree) -> None:
    """Two unknowns are not equal."""
    (tree.root / "etc/machine-id").unlink()
    assert ask(tree, recorded(machine_id=None))[0] is State.UNKNOWN


# ----------------------------------------------------------------------------------------------- another boot


def test_machine_restarted_since_has_ended_it(tree: Tree) -> None:
    """No process survives a restart, and the start times of two boots cannot be compared."""
    tree.add(4711, group=4711, started=8_000_000)
    assert ask(tree, recorded(boot_id=OTHER_BOOT)) == (State.ENDED, "gone: this machine was restarted since")


def test_another_boot_of_a_cloned_machine_is_unknown(tree: Tree) -> None:
    """Machines made from one template share the machine id: another boot id then means another machine."""
    state, answer = ask(tree, recorded(boot_id=OTHER_BOOT), host="build-8")
    assert state is State.UNKNOWN
    assert "the host name is another (build-7): maybe a clone" in answer


@pytest.mark.parametrize("side", ["recorded", "here"])
def test_another_boot_seen_from_or_in_a_container_is_unknown(tree: Tree, side: str) -> None:
    """A container's machine id is its image's; pods of one StatefulSet even share the host name across nodes."""
    if side == "here":
        tree.namespace(CONTAINER_NAMESPACE)
    details = recorded(
        boot_id=OTHER_BOOT, **({"pid_namespace": CONTAINER_NAMESPACE} if side == "recorded" else {})
    )
    state, answer = ask(tree, details)
    assert state is State.UNKNOWN
    assert "in a container" in answer


@pytest.mark.parametrize("missing", ["journal", "machine"])
def test_unknown_boot_is_unknown(tree: Tree, missing: str) -> None:
    """Without it, start times and namespaces of two boots would be compared."""
    if missing == "machine":
        (tree.root / "proc/sys/kernel/random/boot_id").unlink()
    state, answer = ask(tree, recorded(**({"boot_id": None} if missing == "journal" else {})))
    assert (state, answer) == (State.UNKNOWN, "which start of this machine it ran in is not known")


# ------------------------------------------------------------------------------------------------- namespaces


@pytest.mark.parametrize(
    ("theirs", "ours"), [("pid:[4026532179]", None), (None, "pid:[4026532179]"), ("pid:[1]", "pid:[2]")]
)
def test_another_pid_namespace_of_the_same_boot_is_unknown(
    tree: Tree, theirs: str | None, ours: str | None
) -> None:
    """Containers on one machine share the boot id, often the machine id too, and see none of each other."""
    if ours is not None:
        tree.namespace(ours)
    state, answer = ask(tree, recorded(**({"pid_namespace": theirs} if theirs else {})))
    assert (state, answer) == (State.UNKNOWN, "another pid namespace on this machine, where it cannot be seen")


def test_proc_of_another_namespace_is_unknown(tree: Tree) -> None:
    """Where `/proc` numbers us otherwise than the kernel does, its numbers are not those of the journal."""
    tree.add(901, group=901, started=60)
    tree.link("proc/self", "901")
    assert ask(tree, recorded()) == (State.UNKNOWN, "its pid namespace, or ours, is not known")


def test_machine_without_proc_is_unknown(tree: Tree) -> None:
    """An empty `/proc` shows nobody, the living included."""
    (tree.root / "proc/self").unlink()
    assert ask(tree, recorded())[0] is State.UNKNOWN


def test_clock_of_another_time_namespace_is_unknown(tree: Tree) -> None:
    """There the same process seems to have started at another time, as if its number had been given away."""
    tree.add(4711, group=4711, started=8_000_000 + 100_000)
    tree.write("proc/self/timens_offsets", "monotonic           0         0\nboottime         1000         0\n")
    state, answer = ask(tree, recorded())
    assert state is State.UNKNOWN
    assert "no start time" in answer


# ------------------------------------------------------------------------------------------------ the process


def test_case_46_reused_pid_is_not_the_process(tree: Tree) -> None:
    """A later process under its number proves that it has ended."""
    tree.add(4711, group=4711, started=8_000_001)
    assert ask(tree, recorded()) == (State.ENDED, "gone: process 4711 is a later one")


def test_earlier_process_under_the_same_number_is_unknown(tree: Tree) -> None:
    """That cannot be on one clock: a process that had the number before still has it."""
    tree.add(4711, group=4711, started=7_999_999)
    assert ask(tree, recorded())[0] is State.UNKNOWN


@pytest.mark.parametrize("started", [None, "Mon Nov 30 02:47:31 2026", True, 8e6, [8_000_000]])
def test_live_pid_with_an_unusable_start_is_unknown(tree: Tree, started: object) -> None:
    """It may be the holder or anybody: neither alive nor ended."""
    tree.add(4711, group=4711, started=8_000_000)
    state, answer = ask(tree, recorded(pid_started=started))
    assert state is State.UNKNOWN
    assert answer == "there is a process 4711, but whether it is this one is not known: no start time"


def test_process_hidden_from_this_user_is_unknown(tree: Tree) -> None:
    """With `hidepid` another user's process is not in `/proc`, but the kernel knows it."""
    tree.hidden.add(4711)
    assert ask(tree, recorded()) == (State.UNKNOWN, "there is a process 4711, but it is hidden from this user")


def test_zombie_is_ended(tree: Tree) -> None:
    """It runs no more, its parent only has not taken note."""
    tree.add(4711, group=4711, started=8_000_000, state="Z")
    assert ask(tree, recorded()) == (State.ENDED, "gone: process 4711 is a zombie")


def test_process_whose_main_thread_has_ended_is_alive(tree: Tree) -> None:
    """It is listed as a zombie while its other threads run."""
    tree.add(4711, group=4711, started=8_000_000, state="Z", threads=2)
    assert ask(tree, recorded())[0] is State.ALIVE


# ------------------------------------------------------------------------------------------------ the journal


@pytest.mark.parametrize("pid", [None, 0, -1, True, "4711", 1 << 23, 4711.0])
def test_pid_that_is_none_is_unknown(tree: Tree, pid: object) -> None:
    """Signals to 0 and below reach groups, and a journal is anybody's text."""
    assert ask(tree, recorded(pid=pid)) == (State.UNKNOWN, "no process id is recorded")


def test_journal_that_contradicts_the_identity_is_unknown(tree: Tree) -> None:
    """One of the two is wrong, so neither is proof."""
    assert ask(tree, recorded(pid=4712)) == (State.UNKNOWN, "the journal names another process than the identity")


def test_local_holder_without_a_journal_is_unknown(tree: Tree) -> None:
    """Its pid alone belongs to no machine."""
    assert ask(tree, None) == (State.UNKNOWN, "no machine id is recorded")


def test_journal_of_another_holder_tells_nothing(tree: Tree) -> None:
    """The journal of a nested run or of a recoverer names another process."""
    fact = ask_process(subject(recorded(), journal_holder=GITHUB), tree.machine(), at=NOW)
    assert fact is not None
    assert (fact.state, fact.answer) == (State.UNKNOWN, "no machine id is recorded")


@pytest.mark.parametrize("identity", [GITHUB, POD])
def test_job_or_pod_on_this_machine_is_proven_by_its_process(tree: Tree, identity: str) -> None:
    """A self-hosted runner's next job sees that the last one's process is gone."""
    assert ask(tree, recorded(), identity=identity)[0] is State.ENDED
    tree.add(4711, group=4711, started=8_000_000)
    assert ask(tree, recorded(), identity=identity)[0] is State.ALIVE


@pytest.mark.parametrize("identity", [GITHUB, POD, "4f2a91c07be3d855-4711-9c41e07a", "someone"])
@pytest.mark.parametrize("details", [None, {}, {"pid": 4711}, {"machine_id": MACHINE_ID}])
def test_holder_without_a_process_is_not_asked_about(
    tree: Tree, identity: str, details: dict[str, Any] | None
) -> None:
    """There is nothing to ask, which is no answer either."""
    assert ask_process(subject(details, identity=identity), tree.machine(), at=NOW) is None


# ------------------------------------------------------------------------------------------------ the payload


def group(number: int = 4800, started: int | None = 8_000_100) -> dict[str, Any]:
    return {"id": number, "started": started}


def test_case_46_orphaned_payload_is_alive(tree: Tree) -> None:
    """Only fencectl was killed: what it had started still changes the cluster."""
    tree.add(4800, group=4800, started=8_000_100)
    state, answer = ask(tree, recorded(payload_group=group()))
    assert (state, answer) == (State.ALIVE, "alive: process 4800 of its payload runs")


def test_payload_that_has_left_its_group_is_alive(tree: Tree) -> None:
    """The leader is the payload wherever it went."""
    tree.add(4800, group=4799, started=8_000_100)
    assert ask(tree, recorded(payload_group=group()))[0] is State.ALIVE


def test_payload_that_began_after_the_journals_time_is_alive(tree: Tree) -> None:
    """Its leader's own start tells, not the journal's time, nor a name that it may not show to this user."""
    tree.add(4800, group=4800, started=AT_NOW + AFTER)
    assert ask(tree, recorded(payload_group=group(started=AT_NOW + AFTER)))[0] is State.ALIVE


def test_payload_without_a_recorded_start_that_has_left_its_group_is_alive(tree: Tree) -> None:
    """Nobody is in the group, but a process that old under that number can only be the payload."""
    tree.add(4800, group=4799, started=AT_NOW + JUST_BEFORE)
    assert ask(tree, recorded(payload_group=4800))[0] is State.ALIVE


def test_payload_of_a_reused_fencectl_pid_is_alive(tree: Tree) -> None:
    """A later process under fencectl's number says nothing about the payload."""
    tree.add(4711, group=4711, started=9_000_000)
    tree.add(4800, group=4800, started=8_000_100)
    assert ask(tree, recorded(payload_group=group()))[0] is State.ALIVE


def test_payload_is_alive_where_fencectl_cannot_be_told(tree: Tree) -> None:
    """What is seen alive counts whatever else is unknown."""
    tree.hidden.add(4711)
    tree.add(4800, group=4800, started=8_000_100)
    assert ask(tree, recorded(payload_group=group()))[0] is State.ALIVE


def test_empty_group_and_no_process_is_ended(tree: Tree) -> None:
    """Neither fencectl nor anybody of its payload's group is left."""
    state, answer = ask(tree, recorded(payload_group=group()))
    assert state is State.ENDED
    assert answer == "gone: there is no process 4711, and nobody is left in its payload's group 4800"


def test_group_of_zombies_is_ended(tree: Tree) -> None:
    """The leader is a zombie, so is its child."""
    tree.add(4800, group=4800, started=8_000_100, state="Z")
    tree.add(4801, group=4800, started=8_000_200, state="Z")
    state, answer = ask(tree, recorded(payload_group=group()))
    assert state is State.ENDED
    assert answer.endswith("only zombies are left in its payload's group 4800")


def test_reused_group_does_not_count(tree: Tree) -> None:
    """A leader of a later start shows that the recorded group had emptied: strangers do not pin a lease for ever."""
    tree.add(4800, group=4800, started=8_000_101)
    tree.add(4801, group=4800, started=8_000_200)
    state, answer = ask(tree, recorded(payload_group=group()))
    assert state is State.ENDED
    assert answer.endswith("its payload's group 4800 is a later one")


@pytest.mark.parametrize("leader", ["gone", "zombie"])
def test_member_that_carries_the_holders_name_is_alive(tree: Tree, leader: str) -> None:
    """The shell that led the group is dead, its child works on, started after the journal was written."""
    if leader == "zombie":
        tree.add(4800, group=4800, started=8_000_100, state="Z")
    environment = {"PATH": "/bin", "FENCECTL_HOLDER": LOCAL}
    tree.add(4801, group=4800, started=AT_NOW + AFTER, environment=environment)
    assert ask(tree, recorded(payload_group=group()))[0] is State.ALIVE


def test_member_older_than_the_journal_is_alive(tree: Tree) -> None:
    """When the journal named the group, it was already in it."""
    tree.add(4801, group=4800, started=AT_NOW + JUST_BEFORE)
    assert ask(tree, recorded(payload_group=group()))[0] is State.ALIVE


@pytest.mark.parametrize(
    "environment", [None, {}, {"FENCECTL_HOLDER": f"{LOCAL}x"}, {"X": f"FENCECTL_HOLDER={LOCAL}"}]
)
def test_later_member_without_a_leader_is_unknown(tree: Tree, environment: dict[str, str] | None) -> None:
    """It may be the payload's late child or a stranger of a reused group: neither is claimed."""
    tree.add(4801, group=4800, started=AT_NOW + AFTER, environment=environment)
    state, answer = ask(tree, recorded(payload_group=group()))
    assert state is State.UNKNOWN
    assert "process 4801 runs under the number of its payload's group" in answer


@pytest.mark.parametrize("known", [4800, -4800])
def test_hidden_payload_is_unknown(tree: Tree, known: int) -> None:
    """The kernel knows the leader, or somebody in the group, and `/proc` shows nobody."""
    tree.hidden.add(known)
    state, answer = ask(tree, recorded(payload_group=group()))
    assert state is State.UNKNOWN
    assert "hidden from this user" in answer


@pytest.mark.parametrize(
    ("started", "state"), [(AT_NOW + JUST_BEFORE, State.ALIVE), (AT_NOW + AFTER, State.UNKNOWN)]
)
@pytest.mark.parametrize("written", [4800, {"id": 4800}, {"id": 4800, "started": None}])
def test_group_without_a_start_is_judged_by_the_journals_time(
    tree: Tree, written: object, started: int, state: State
) -> None:
    """A leader older than the journal is the payload; of a later one nobody can tell."""
    tree.add(4800, group=4800, started=started)
    assert ask(tree, recorded(payload_group=written))[0] is state


@pytest.mark.parametrize("written", [0, 1, -4800, True, "4800", [], {}, {"id": "4800"}, {"started": 1}, 1 << 30])
def test_unusable_group_is_unknown(tree: Tree, written: object) -> None:
    """A payload ran, and where is not to be read: that is no proof that it has ended."""
    state, answer = ask(tree, recorded(payload_group=written))
    assert state is State.UNKNOWN
    assert "its payload's group is not recorded as a number" in answer


def test_unrecorded_payload_is_found_by_the_name_it_carries(tree: Tree) -> None:
    """Killed between the start of its payload and the journal's update, fencectl leaves a payload that nobody named."""
    tree.add(4801, group=4800, started=AT_NOW + AFTER, environment={"FENCECTL_HOLDER": LOCAL})
    assert ask(tree, recorded()) == (State.ALIVE, "alive: process 4801 of its payload runs")
    tree.add(4801, group=4800, started=AT_NOW + AFTER, state="Z")
    assert ask(tree, recorded())[0] is State.ENDED


def test_clock_that_was_set_back_does_not_make_the_payload_a_strangers(tree: Tree) -> None:
    """Times of the wall clock only ever add proof of life; without them the answer is unknown."""
    tree.write("proc/stat", "cpu 1\n")
    tree.add(4801, group=4800, started=AT_NOW + JUST_BEFORE)
    assert ask(tree, recorded(payload_group=group()))[0] is State.UNKNOWN


def test_journal_written_before_the_payload_began_gives_no_false_death(tree: Tree) -> None:
    """A journal whose time was not moved on is older than all of the payload: still not ended."""
    tree.add(4801, group=4800, started=AT_NOW)
    given = journalled(subject(recorded(payload_group=group())), at=NOW - timedelta(hours=2))
    fact = ask_process(given, tree.machine(), at=NOW)
    assert fact is not None
    assert fact.state is State.UNKNOWN


# ------------------------------------------------------------------------------------------------------ macOS


class Mac:
    """What the programs of a Mac say."""

    def __init__(self, *processes: str, uuid: str = "7C9E6679-7425-40DE-944B-E07FC1F90AE7") -> None:
        self.processes = processes
        self.said = {
            "ioreg": f'  | {{\n      "IOPlatformUUID" = "{uuid}"\n    }}\n',
            "sysctl": "B3F8A1C2-1111-4222-8333-944455566677\n",
        }
        self.known = {int(line.split()[0]) for line in processes} | {-int(line.split()[1]) for line in processes}

    def program(self, arguments: Any) -> str | None:
        if arguments[0] != "ps":
            return self.said[arguments[0]]
        wanted = arguments[2] if arguments[1] == "-p" else None
        return "".join(f"{line}\n" for line in self.processes if wanted in (None, line.split()[0])) or None

    def machine(self) -> Machine:
        return Machine(
            root=Path("/nonexistent"),
            system="darwin",
            pid=1,
            host="mac",
            knows=self.known.__contains__,
            program=self.program,
        )

    def ask(self, **changes: Any) -> State:
        machine = self.machine()
        details = recorded(
            machine_id=machine.machine_id(), boot_id=machine.boot_id(), pid_namespace="host", host="mac",
            pid_started="Mon Nov 30 02:40:00 2026",
        )  # fmt: skip
        fact = ask_process(subject(details | changes), machine, at=NOW)
        assert fact is not None
        return fact.state


def test_mac_tells_the_same_by_its_own_programs() -> None:
    """The machine's UUID, the boot session's, and ps, with times in UTC and C's words."""
    alive = "  4711  4711 S    Mon Nov 30 02:40:00 2026\n"
    assert Mac(alive).ask() is State.ALIVE
    assert Mac().ask() is State.ENDED
    assert Mac("4711 4711 Z Mon Nov 30 02:40:00 2026").ask() is State.ENDED
    assert Mac("4711 4711 Ss Mon Nov 30 02:41:00 2026").ask() is State.ENDED
    assert Mac(alive).ask(boot_id="00000000-1111-4222-8333-944455566677") is State.ENDED
    assert Mac(alive).ask(machine_id="00000000-1111-4222-8333-944455566677") is State.UNKNOWN
    orphan = "4801 4800 S+ Mon Nov 30 02:45:00 2026"
    assert Mac(orphan).ask(payload_group={"id": 4800, "started": "Mon Nov 30 02:44:00 2026"}) is State.ALIVE
    assert Mac(uuid="none").machine().machine_id() is None
