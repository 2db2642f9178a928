"""
The network: each process' own way to the sandbox, with everything that can happen to a request on it.

A write is in flight on its own: it is applied (or not) at its time whether its client still waits, has given up, was
stopped or was killed. Reads are answered with what was there when the server read it, however old that is by the
time somebody looks at it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fencectl.cluster.answer import Answer
from fencectl.cluster.failures import Kind, NoAnswer, Unreachable, WireError
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import HOLDER, JOURNAL
from fencectl.core.refs import dig
from fencectl.sandbox import Request, Response, Sandbox
from tests.sim.agents import Agent, Trip, Write
from tests.sim.kernel import FOREVER, Kernel, KilledError, Process, Task

LATE_S = 34.0
"""For so long an API server goes on with a write whose client is gone."""
READ_DEADLINE_S = 30.0
_HOLDER_KEY = "/metadata/annotations/" + HOLDER.replace("/", "~1")
_JOURNAL_KEY = "/metadata/annotations/" + JOURNAL.replace("/", "~1")


@dataclass(slots=True)
class Weather:
    """
    How often what goes wrong, for everybody.

    `latency_s`: the mean of a way there or back. `away`: when the server answers nobody (from, to).
    """

    latency_s: float = 0.05
    slow: float = 0.02
    lost_before: float = 0.0
    lost_after: float = 0.0
    late: float = 0.0
    busy: float = 0.0
    read_fails: float = 0.0
    away: tuple[tuple[float, float], ...] = ()

    def calm(self) -> None:
        """Let everything go well from now on."""
        self.lost_before = self.lost_after = self.late = self.busy = self.read_fails = self.slow = 0.0
        self.away = ()


@dataclass(slots=True)
class Net:
    """What all doors share: the server, the weather, and whoever wants to know of every write."""

    kernel: Kernel
    sandbox: Sandbox
    weather: Weather
    applying: Write | None = None
    writes: list[Write] = field(default_factory=list)
    apis: dict[str, Response] = field(default_factory=dict)
    on_call: Callable[[Write], None] = lambda _: None
    on_refused: Callable[[GuardedPatch], None] = lambda _: None

    def handle(self, request: Request, write: Write | None) -> Response:
        if request.path == "/apis":
            # NB: half a millisecond each, and it never changes here.
            accept = request.headers["accept"]
            if accept not in self.apis:
                self.apis[accept] = self.sandbox.handle(request)
            return self.apis[accept]
        self.applying = write
        try:
            return self.sandbox.handle(request)
        finally:
            self.applying = None

    def is_away(self) -> bool:
        return any(begin <= self.kernel.now_s < end for begin, end in self.weather.away)


class SimDoor:
    """One connection of one process."""

    def __init__(self, net: Net, process: Process, agent: Agent) -> None:
        self._net = net
        self._process = process
        self._agent = agent

    # Reads

    def get(
        self,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        kernel, process = self._net.kernel, self._process
        limit_s = READ_DEADLINE_S if deadline_s is None else deadline_s
        trip = self._agent.call()
        self._meet(trip, "before")
        sent_s, begun_s = process.boot_s(), kernel.now_s
        there_s, back_s = self._latency(), self._latency()
        if kernel.random.random() < self._net.weather.read_fails or self._is_cut():
            kernel.wait(min(limit_s, there_s) if kernel.random.random() < 0.5 else limit_s)
            raise self._unreachable(kernel.now_s - begun_s)
        kernel.wait(min(there_s, limit_s))
        if there_s >= limit_s or self._is_cut():
            kernel.wait(max(0.0, limit_s - there_s))
            raise self._unreachable(kernel.now_s - begun_s)
        request = Request(
            "GET", path, {key: str(value) for key, value in (query or {}).items()}, {"accept": accept}
        )
        response = self._net.handle(request, None)
        date_at = self._net.sandbox.clock.now().replace(microsecond=0)
        self._meet(trip, "sent")
        kernel.wait(min(back_s, max(0.0, limit_s - there_s)))
        if there_s + back_s >= limit_s:
            raise self._unreachable(kernel.now_s - begun_s)
        self._meet(trip, "after")
        answer = _answer(response, date_at, sent_s, process.boot_s())
        self._agent.read(path, answer)
        return answer

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        accept: str = "application/json",
        idle_s: float = 60.0,
    ) -> Iterator[bytes]:
        raise NotImplementedError("nobody watches in the simulation")

    # Writes

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        kernel, process = self._net.kernel, self._process
        dry = "dryRun" in (query or {})
        write = Write(process, kind_of(method, path, body, self._agent.identity), path, kernel.now_s, None, dry)
        write.left_s = None if self._agent.held is None else self._agent.held.left_s(process)
        if not dry:
            self._net.on_call(write)
        trip = self._agent.call("dry" if dry else write.kind)
        self._meet(trip, "before")
        write.sent_s = kernel.now_s
        boot_s, wall_at = process.boot_s(), process.wall()
        if write.kind == "take" and not dry:
            self._agent.takes(boot_s, wall_at)
        headers = {"content-type": content_type, "accept": "application/json"}
        request = Request(method, path, {key: str(value) for key, value in (query or {}).items()}, headers, body)
        limit_s = FOREVER if deadline_s is None else deadline_s
        self._fly(request, write, limit_s, boot_s, trip)
        self._meet(trip, "after")
        if write.reply is None:
            cut = WireError(Kind.TIMEOUT, sent=True)
            raise NoAnswer(self._unreachable(kernel.now_s - write.sent_s, cut), sent=True)
        self._agent.answered(write, write.reply, boot_s, wall_at)
        return write.reply

    def _fly(self, request: Request, write: Write, limit_s: float, boot_s: float, trip: Trip | None) -> None:
        """Let a write fly, and wait for its answer until the deadline."""
        net, kernel, weather = self._net, self._net.kernel, self._net.weather
        task, dice = kernel.current, kernel.random.random()
        there_s, back_s = self._latency(), self._latency()
        name = f"{'dry-run ' if write.dry else ''}{write.kind} {write.path.rpartition('/')[2]}"
        if dice < weather.busy:
            kernel.wait(there_s)
            net.writes.append(write)
            self._process.say(f"{name}: 429")
            write.reply = _refusal(429, net, boot_s, self._process.boot_s())
            return
        dice -= weather.busy
        lost_before = dice < weather.lost_before or self._is_cut()
        dice -= weather.lost_before
        lost_after = not lost_before and dice < weather.lost_after
        dice -= weather.lost_after
        if not lost_before and not lost_after and dice < weather.late:
            there_s = kernel.random.uniform(0.0, LATE_S)
        is_lost = trip is not None and trip.what == "lost"
        lost_before = lost_before or is_lost
        lost_after = lost_after or (trip is not None and trip.what == "unanswered" and not lost_before)
        if trip is not None and trip.what == "slow":
            back_s = trip.for_s
        if trip is not None and trip.late:
            there_s = kernel.random.uniform(0.0, LATE_S)
        if lost_before:
            self._process.say(f"{name}: lost on its way")
        else:
            self._process.say(f"{name}: sent")
            flight = _Flight(self, request, write, task, lost_after, back_s, boot_s)
            kernel.at(kernel.now_s + there_s, flight.arrive)
        self._meet(trip, "sent")
        # NB: half of the lost answers are noticed at once (the connection broke), half at the deadline.
        patience_s = (
            limit_s
            if kernel.random.random() < 0.5 or is_lost or not (lost_before or lost_after)
            else there_s + back_s
        )
        write.waiting = True
        kernel.wait(min(limit_s, patience_s, LATE_S + 1.0))
        write.waiting = False
        if write.reply is None:
            self._process.say(f"{name}: no answer")

    # Inside

    def _latency(self) -> float:
        dice = self._net.kernel.random
        weather = self._net.weather
        if dice.random() < weather.slow:
            return dice.uniform(0.5, 7.0)
        return dice.expovariate(1.0 / weather.latency_s)

    def _is_cut(self) -> bool:
        now_s = self._net.kernel.now_s
        return self._net.is_away() or any(begin <= now_s < end for begin, end in self._agent.cut)

    def _unreachable(self, elapsed_s: float, cause: WireError | None = None) -> Unreachable:
        return Unreachable(
            cause or WireError(Kind.TIMEOUT), context="sim", server="sim", tries=1, elapsed_s=elapsed_s
        )

    def _meet(self, trip: Trip | None, when: str) -> None:
        """Let happen what is to happen to the process here."""
        if (
            trip is None
            or trip.what in ("nothing", "lost", "slow", "unanswered")
            or trip.when != when
            or self._process.dead
        ):
            return
        process, kernel = self._process, self._net.kernel
        if trip.what == "kill":
            process.kill()
            raise KilledError
        if trip.what == "stop":
            process.say("SIGTERM")
            process.stop.set()
            return
        process.pause(trip.for_s, boot_counts=not self._agent.hidden_sleep)
        kernel.wait(0.0)


@dataclass(slots=True)
class _Flight:
    """One write under way."""

    door: SimDoor
    request: Request
    write: Write
    task: Task
    lost_after: bool
    back_s: float
    boot_s: float

    def arrive(self) -> None:
        door, write = self.door, self.write
        net, process = door._net, door._process
        kernel = net.kernel
        if net.is_away():
            return
        who = process.name if not process.dead else f"{process.name}†"
        name = f"{'dry-run ' if write.dry else ''}{write.kind} {write.path.rpartition('/')[2]}"
        response = net.handle(self.request, None if write.dry else write)
        write.status = response.status
        net.writes.append(write)
        late = f", {kernel.now_s - write.sent_s:.0f}s late" if kernel.now_s - write.sent_s > 1 else ""
        kernel.say(who, f"{name}: {response.status}{late}{', answer lost' if self.lost_after else ''}")
        if self.lost_after or self.task.ended or process.dead:
            return
        date_at = net.sandbox.clock.now().replace(microsecond=0)
        kernel.at(kernel.now_s + self.back_s, lambda: self._deliver(response, date_at))

    def _deliver(self, response: Response, date_at: datetime) -> None:
        kernel = self.door._net.kernel
        if not self.write.waiting or self.task.process.dead:
            return
        self.write.reply = _answer(response, date_at, self.boot_s, self.task.process.boot_s())
        kernel.wake(self.task, kernel.now_s)


def _answer(response: Response, date_at: datetime, sent_s: float, received_s: float) -> Answer:
    headers = {key.lower(): value for key, value in response.headers.items()}
    return Answer(response.status, headers, response.body, date_at, sent_s, received_s)


def _refusal(status: int, net: Net, sent_s: float, received_s: float) -> Answer:
    date_at = net.sandbox.clock.now().replace(microsecond=0)
    body = b"Too many requests, please try again later.\n"
    return Answer(status, {"retry-after": "1"}, body, date_at, sent_s, received_s)


def kind_of(method: str, path: str, body: bytes, identity: str) -> str:
    """Name what a write is for, by its body alone."""
    if "/configmaps" in path:
        return "record"
    if "/secrets" in path:
        return "point"
    if method == "POST":
        return "evict" if path.endswith("/eviction") else "take"
    changes = [op for op in json.loads(body) if op["op"] != "test"]
    by_path = {op["path"]: op for op in changes}
    if "/leases/" in path:
        holder = by_path.get("/spec/holderIdentity", by_path.get("/spec"))
        if holder is None:
            return "renew"
        value = holder["value"] if isinstance(holder["value"], str) else dig(holder["value"], "holderIdentity")
        return "free" if value == "" else "take" if value == identity else "hand-back"
    mark = by_path.get(_HOLDER_KEY)
    if mark is not None:
        return "release" if mark["op"] == "remove" else "place"
    if HOLDER in (dig(by_path.get("/metadata/annotations"), "value") or {}):
        return "place"
    return "journal" if _JOURNAL_KEY in by_path else "other"
