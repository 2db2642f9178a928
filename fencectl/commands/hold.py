"""
`fencectl hold`: a person says that no deploy is to start, why, and until when; and takes it back.

A hold that is there is never overwritten: to change one, lift it and place it again. So both reasons are kept.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from fencectl.cluster.clock import Clock, SystemClock
from fencectl.cluster.kinds import CONFIGMAPS, record_of
from fencectl.commands.asking import answer_to
from fencectl.commands.common import NOTHING, lease_name, resolve
from fencectl.commands.hold_line import Action, Line, checked_reason, read_line
from fencectl.commands.hold_show import Show, Where
from fencectl.commands.options_acting import HoldOptions
from fencectl.commands.reading import Subject, subjects
from fencectl.core.errors import ExitCode, PersonNeededError, UsageError
from fencectl.core.identity import parse_holder
from fencectl.core.profiles import ProfileName
from fencectl.core.record_hold import Hold, Lift, Lifted, is_lifted_since, last_lift, last_lifts, lift, place
from fencectl.core.record_until import end_time
from fencectl.core.record_write import Change, data_of
from fencectl.core.records import Entry, read_record
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceKind
from fencectl.core.times import age_text
from fencectl.run.ports import Door
from fencectl.run.record import REQUEST_S, Record, RecordBook


def run(options: HoldOptions) -> ExitCode:
    """Read the line, then place, lift or list."""
    line = read_line(options)
    effective = resolve(options.common)
    target = effective.one_target("hold")
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(
            f"hold is for the profile fencectl: {target.profile.name} has no record to hold anything in",
            hint=f"leave `--profile` out. {NOTHING}",
        )
    lease = lease_name(options.lease) if options.lease else target.profile.lease
    clock = SystemClock()
    if line.until is not None:
        end_time(line.until, now=clock.wall())  # what cannot be right is said before anything is read
    attended = sys.stdin.isatty() and sys.stderr.isatty() and not options.yes
    if line.action is Action.LIFT and not (attended or options.yes):
        name = target.print_context or target.context or "the cluster"
        raise UsageError(
            f"hold lift changes {name}, and nobody can be asked here",
            hint="pass --yes, and the --reason, if this job may lift what a person has placed",
        )
    (subject,) = subjects(effective)
    with subject.opened(clock) as door:
        verb = _Verb(options, line, subject, door, clock, lease)
        match line.action:
            case Action.PLACE:
                return verb.place()
            case Action.LIFT:
                return verb.lift(attended=attended)
            case Action.LIST:
                return verb.list()


@dataclass(slots=True)
class _Verb:
    """One run of the verb against one cluster."""

    options: HoldOptions
    line: Line
    subject: Subject
    door: Door
    clock: Clock
    lease: tuple[str, str]

    def place(self) -> ExitCode:
        made: list[Hold] = []

        def decide(record: Record) -> tuple[Change, ...]:
            # NB: made once, by the server's clock; the same hold is sent again where an answer was lost.
            hold = made[0] if made else self._new_hold(record.at)
            made[:] = [hold]
            self._must_be_free(hold, record)
            return place(data_of(record.seen), hold)

        record = self._book().write(decide)
        self._show().placed(self._entry(record, made[0].key), record.at)
        return ExitCode.OK

    def _new_hold(self, now: datetime) -> Hold:
        line = self.line
        until = end_time(line.until, now=now) if line.until is not None else None
        return Hold(line.type, line.reason or "", placed_by(self.clock), now, secrets.token_hex(8), until)

    def _must_be_free(self, hold: Hold, record: Record) -> None:
        data = data_of(record.seen)
        there = next((entry for entry in _holds(record) if entry.key == hold.key), None)
        if there is not None:
            raise PersonNeededError(
                f"hold `{hold.type}` is on {self._label} already: {_who(there, record.at)}",
                reason=there.problem or there.why or "it gives no reason",
                hint=f"nothing was changed; to change it, lift it first: {self._command('lift', hold.type)}",
            )
        if is_lifted_since(data, hold.key, record.unanswered):
            lifted = last_lift(data, hold.key)
            raise PersonNeededError(
                f"hold `{hold.type}` was sent to {self._label} without an answer, and one of its type lifted since"
                + (f" by {lifted.by}" if lifted is not None and lifted.by else ""),
                reason=lifted.reason if lifted is not None else None,
                hint="place it again if it is still needed",
            )

    def lift(self, *, attended: bool) -> ExitCode:
        book = self._book()
        first = book.read()
        entry = self._named(first)
        reason = self.line.reason
        if attended:
            reason = self._ask(entry, first, reason)
        lifted = Lift(reason or "", placed_by(self.clock), first.at, secrets.token_hex(8))
        record = book.write(partial(self._decide_lift, entry, lifted))
        gone = last_lift(data_of(record.seen), entry.key)
        others = [held for held in _holds(record) if held.key != entry.key]
        by_other = None
        if gone is None or gone.id != lifted.id:
            said_before = gone == last_lift(data_of(first.seen), entry.key)
            by_other = Lifted(entry.lifted_as) if gone is None or said_before else gone
        self._show().lifted(entry, lifted, record.at, by_other=by_other, left=others)
        return ExitCode.OK

    def _decide_lift(self, entry: Entry, lifted: Lift, record: Record) -> tuple[Change, ...]:
        data = data_of(record.seen)
        now = data.get(entry.key)
        if now is None:
            return ()  # somebody else was faster: it is as it was asked to be
        if now != entry.text:
            other = self._entry(record, entry.key)
            raise PersonNeededError(
                f"nothing was lifted on {self._label}: `{entry.lifted_as}` is another hold by now: "
                f"{_who(other, record.at)}",
                reason=other.problem or other.why,
                hint=f"if that one may go too: {self._command('lift', entry.lifted_as)}",
            )
        return lift(data, entry, lifted)

    def _named(self, record: Record) -> Entry:
        """The one hold or claim that was named; `claim` names the only one there is."""
        holds = _holds(record)
        wanted = self.line.type
        found = [entry for entry in holds if wanted in (entry.lifted_as, entry.key)]
        if not found and wanted == "claim":
            found = [entry for entry in holds if entry.key.startswith("claim-")]
        if len(found) > 1:
            names = ", ".join(f"`{entry.lifted_as}`" for entry in found)
            raise UsageError(f"{len(found)} claims on {self._label}", hint=f"name one of them: {names}")
        if not found:
            held = ", ".join(f"`{entry.lifted_as}` ({_short(entry, record.at)})" for entry in holds)
            raise UsageError(
                f"no hold `{wanted}` on {self._label}; held: {held}" if held else f"no hold is on {self._label}",
                hint="nothing was changed",
            )
        (entry,) = found
        if entry.newer or entry.text is None:
            raise PersonNeededError(
                f"nothing was lifted on {self._label}: `{wanted}` cannot be judged by this version",
                reason=entry.problem,
                hint="lift it with the version that placed it",
            )
        return entry

    def _ask(self, entry: Entry, record: Record, reason: str | None) -> str:
        show = self._show()
        show.asked_about(entry, record.at)
        if reason is None:
            reason = checked_reason(answer_to(lambda: show.ask("Why may it go? ")).strip())
        question = f"Lift hold `{entry.lifted_as}` on {show.where.label}? Only `yes` goes on: "
        if answer_to(lambda: show.ask(question)).strip() != "yes":
            raise UsageError("nothing was lifted: the answer was not `yes`")
        return reason

    def list(self) -> ExitCode:
        record = self._book().read()
        self._show().listed(_holds(record), record.at, before=last_lifts(data_of(record.seen)))
        return ExitCode.OK

    def _book(self) -> RecordBook:
        namespace, name = record_of(self.lease)
        ref = ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
        timeout_s = self.options.common.request_timeout_s or REQUEST_S
        purpose = f"hold {self.line.action}"
        return RecordBook(self.door, self.clock, ref, purpose, self._label, timeout_s, self._command("list"))

    def _show(self) -> Show:
        namespace, name = record_of(self.lease)
        connection, config = self.subject.connection, self.options.common.config
        flags = {
            "--config": config,
            "--kubeconfig": self.subject.kubeconfig,
            "--context": connection.context_flag,
            "--lease": self.options.lease,
        }
        where = Where(
            self._label,
            connection.context_flag,
            connection.server,
            f"configmap/{namespace}/{name}",
            tuple(word for flag, value in flags.items() if value is not None for word in (flag, value)),
        )
        return Show(self.options.output, self.options.common.color, where)

    @property
    def _label(self) -> str:
        connection = self.subject.connection
        return self.subject.settings.print_context or connection.context_flag or connection.server

    def _command(self, *words: str) -> str:
        return self._show().where.command(*words)

    @staticmethod
    def _entry(record: Record, key: str) -> Entry:
        (entry,) = (entry for entry in _holds(record) if entry.key == key)
        return entry


def _holds(record: Record) -> tuple[Entry, ...]:
    entries = read_record(record.seen, record.at) if record.seen is not None else ()
    return tuple(entry for entry in entries if entry.kind is FenceKind.HOLD)


def _who(entry: Entry, now: datetime) -> str:
    since = f"for {age_text((now - entry.since).total_seconds())}" if entry.since else "since nobody knows when"
    return f"{since}, by {entry.by}" if entry.by else f"{since}, by nobody knows whom"


def _short(entry: Entry, now: datetime) -> str:
    age = age_text((now - entry.since).total_seconds()) if entry.since else None
    return ", ".join(part for part in (entry.problem or entry.why or "no reason", age) if part)


def placed_by(clock: Clock) -> str:
    """Who places or lifts: the run and its actor, the pod, or the person at this machine."""
    from fencectl.evidence.machine import Machine
    from fencectl.evidence.self_identity import describe_self

    machine = Machine()
    own = describe_self(os.environ, machine, command=sys.argv, at=clock.wall())
    holder = parse_holder(own.identity)
    if holder.run is not None:
        parts = (own.details["actor"], holder.title, own.repository)
        return ", ".join(part for part in parts if part)
    if holder.pod_name is not None:
        return holder.title
    return f"{_user()}@{machine.host}"


def _user() -> str:
    """The account, not what the environment calls it; its number where it has no name, as in many containers."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
