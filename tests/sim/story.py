"""Play the story of one seed to its end, clean up after it, and see that everything is as before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencectl.core.errors import FencectlError
from fencectl.core.marks_reader import Vouched
from fencectl.core.profiles import REQUESTED_AT
from fencectl.core.recovery import Wanted
from fencectl.core.refs import dig
from fencectl.sandbox import Sandbox
from fencectl.sandbox.resources import flux_resources
from tests.sim.actors import Actor, Scenario
from tests.sim.agents import Agent
from tests.sim.deploy_spec import DeploySpec, deploy_identity
from tests.sim.deployer import Deployer
from tests.sim.doors import Net
from tests.sim.foreign import FLUX, INVENTORY, FluxController, Foreigners, make_kustomization, make_node, state_of
from tests.sim.invariants import Counts, Monitor
from tests.sim.kernel import START, Event, Kernel
from tests.sim.look import Oracle, inline_reads
from tests.sim.operators import Operator
from tests.sim.recoverer import Recoverer, recoverer_identity
from tests.sim.scenario import draw

LEASE = (FLUX, "fencectl-deploy")
TRIES = 3


class InvariantError(AssertionError):
    """A seed that tells of a fault; says how to see it again."""


@dataclass(slots=True)
class Told:
    """What came of one seed."""

    seed: int
    words: str
    steps: int
    simulated_s: float
    digest: str
    counts: Counts
    failures: tuple[str, ...]
    events: tuple[Event, ...]

    def must_hold(self) -> None:
        """Raises InvariantError with the last events where an invariant was broken."""
        if self.failures:
            last = "\n".join(str(event) for event in self.events[-40:])
            raise InvariantError(
                f"seed {self.seed} ({self.words}): {'; '.join(self.failures)}\n{last}\n"
                f"see it whole: pytest tests/sim/test_simulation.py --sim-seed {self.seed} -s"
            )


@dataclass(slots=True)
class Stage:
    """A cluster, its network, and everybody on it."""

    seed: int
    scenario: Scenario
    kernel: Kernel = field(init=False)
    net: Net = field(init=False)
    oracle: Oracle = field(init=False)
    monitor: Monitor = field(init=False)
    foreigners: Foreigners = field(init=False)
    controller: FluxController = field(init=False)
    before: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernel = self.kernel = Kernel(self.seed)
        sandbox = Sandbox(flux=False, manual_clock_at=START, seed=self.seed)
        sandbox.resources.add([one for one in flux_resources() if one.kind == "Kustomization"])
        kernel.on_advance.append(lambda by_s: void(sandbox.clock.advance(by_s)))
        scenario = self.scenario
        self.net = Net(kernel, sandbox, scenario.weather)
        self.oracle = Oracle(kernel, silent=scenario.silent)
        self._furnish()
        self.monitor = Monitor(self.net, self.oracle, LEASE)
        self.monitor.attach()
        self.foreigners = Foreigners(self.net)
        self.controller = FluxController(self.net, silent=scenario.silent_flux)

    def _furnish(self) -> None:
        store, scenario = self.net.sandbox.store, self.scenario
        for name, cordoned in zip(("n1", "n2"), scenario.nodes, strict=True):
            store.create(make_node(name, {"unschedulable": True} if cordoned else {}), manager="kubelet")
        spec, annotations = scenario.flux
        store.create(make_kustomization("base", {}), manager="flux")
        store.create(make_kustomization("web", spec, annotations), manager="flux")
        store.set_status("kustomizations", "base", INVENTORY, namespace=FLUX, manager="flux")
        if scenario.lease != "absent":
            lease: dict[str, Any] = {"leaseTransitions": 7} if scenario.lease == "never-held" else {}
            if scenario.lease == "free":
                lease = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": lease}
            store.create(body | {"metadata": {"name": LEASE[1], "namespace": LEASE[0]}})
        for obj in (*store.list("nodes"), *store.list("kustomizations", namespace=FLUX)):
            self.before[obj["kind"], obj["metadata"]["name"]] = state_of(obj)

    # Who takes part

    def agent(self, name: str, identity: str, role: str, actor: Actor) -> Agent:
        process = self.kernel.process(name, wall_offset_s=actor.skew_s)
        agent = Agent(process, identity, role, LEASE, trips=dict(actor.trips), cut=actor.cut)
        agent.hidden_sleep = actor.hidden
        self.oracle.agents[identity] = agent
        for at_s, by_s in actor.jumps:
            self.kernel.at(at_s, lambda by_s=by_s: _set_clock(agent, by_s))  # type: ignore[misc]
        if actor.killed_s is not None:
            self.kernel.at(actor.starts_s + actor.killed_s, process.kill)
        if actor.paused is not None:
            begin_s, for_s = actor.paused
            self.kernel.at(actor.starts_s + begin_s, lambda: process.pause(for_s, boot_counts=not actor.hidden))
        return agent

    def deploy(self, number: int, actor: Actor, spec: DeploySpec) -> Deployer:
        agent = self.agent(f"deploy{number}", deploy_identity(100 + number, f"d{number}"), "deploy", actor)
        agent.spec = spec
        monitor = self.monitor
        deploy = Deployer(
            self.net,
            agent,
            self.oracle,
            spec,
            monitor.became_active,
            monitor.deploys.command_begins,
            monitor.deploys.deploy_ended,
        )
        self.start(agent, actor.starts_s, deploy.run)
        return deploy

    def recoverer(
        self, name: str, actor: Actor, *, attended: bool = False, vouched: Vouched | None = None
    ) -> Recoverer:
        agent = self.agent(name, recoverer_identity(name), "recoverer", actor)
        wanted = Wanted(every=True, accept_presumed=True, attended=attended)
        vouched = vouched or Vouched()
        agent.vouched = vouched.nodes | vouched.resumed
        recoverer = Recoverer(self.net, agent, self.oracle, wanted, vouched)
        self.start(agent, actor.starts_s, recoverer.run)
        return recoverer

    def start(self, agent: Agent, at_s: float, work: Callable[[], None]) -> None:
        self.kernel.at(at_s, lambda: void(agent.process.dead or agent.process.start(work)))

    # The story

    def play(self) -> None:
        scenario, kernel = self.scenario, self.kernel
        self.deploy(1, scenario.first, scenario.spec)
        if scenario.believed_dead_s is not None:
            self.oracle.believed_dead[deploy_identity(101, "d1")] = scenario.believed_dead_s
        if scenario.second is not None:
            self.deploy(2, scenario.second, scenario.second_spec)
        for number, actor in enumerate(scenario.recoverers):
            self._recovers_again(f"recover{number}", actor)
        if scenario.operator is not None:
            agent = self.agent("operator", "operator", "operator", scenario.operator)
            agent.careless = scenario.careless
            operator = Operator(self.net, agent, self.oracle, scenario.operator_waits_s)
            self.start(agent, scenario.operator.starts_s, operator.run)
        self.foreigners.plan(kernel.random, until_s=250.0, count=scenario.foreign, rough=scenario.rough)
        if scenario.lease_deleted_s is not None:
            kernel.at(scenario.lease_deleted_s, lambda: self.foreigners.delete_lease(*LEASE))
        kernel.run()
        self.monitor.deploys.all_ended()

    def _recovers_again(self, name: str, actor: Actor) -> None:
        """Somebody who runs `recover` again, each time as a new process, until nothing is left to do."""

        def run(number: int, actor: Actor) -> None:
            resumes = Vouched(frozenset(), self.scenario.resumes)
            recoverer = self.recoverer(f"{name}.{number}", actor, vouched=resumes)
            if self.scenario.recoverer_believed_dead_s is not None:
                self.oracle.believed_dead[recoverer.agent.identity] = self.scenario.recoverer_believed_dead_s
            if number < TRIES:
                self.kernel.at(self.kernel.now_s + 95.0 + 30.0 * number, lambda: again(number, recoverer))

        def again(number: int, before: Recoverer) -> None:
            if not before.done:
                run(number + 1, Actor(self.kernel.now_s))

        run(0, actor)

    def clean_up(self) -> None:
        """Whatever happened: one calm and truthful `recover` after the other leaves nothing behind."""
        self.monitor.ended()
        if self.kernel.failures:
            return
        self.kernel.say("stage", "everybody has ended; from here on all goes well")
        self.scenario.weather.calm()
        self.oracle.silent = 0.0
        self.oracle.believed_dead.clear()
        for number in range(TRIES):
            vouched = self._vouch()
            recoverer = self.recoverer(
                f"cleaner{number}", Actor(self.kernel.now_s + 1.0), attended=True, vouched=vouched
            )
            self.kernel.run()
            if self.kernel.failures or recoverer.done:
                break
            self.kernel.say("stage", f"the cleaner could not: {recoverer.said}")
            if not _may_go_on(recoverer.refused):
                break
        if not self.kernel.failures:
            self._must_be_as_before()

    def _vouch(self) -> Vouched:
        """A person has looked: nodes whose work broke off are fine, and what was kept may go."""
        nodes, kept = set(), set()
        for seen, mark in self.monitor.marks():
            if seen.ref.kind == "Node":
                nodes.add(seen.ref.display)
            elif mark.kept:
                kept.add(seen.ref.display)
        return Vouched(frozenset(nodes), frozenset(kept))

    def _must_be_as_before(self) -> None:
        """I3, I8: nothing is fenced any more, and what nobody else has changed is as it was."""
        kernel, store = self.kernel, self.net.sandbox.store
        left = [seen.ref.display for seen, _ in self.monitor.marks()]
        lease = store.find("leases", LEASE[1], namespace=LEASE[0])
        holder = dig(lease, "spec", "holderIdentity")
        if left or holder:
            kernel.fail(f"I8: still fenced after everything: {', '.join(left)} lease {holder or 'free'}")
            return
        for obj in (*store.list("nodes"), *store.list("kustomizations", namespace=FLUX)):
            key = (obj["kind"], obj["metadata"]["name"])
            if key in self.foreigners.made_anew:
                continue
            touched = self.foreigners.touched.get(key, set())
            was, now = self.before[key], state_of(obj)
            for name, value in was.items():
                # NB: a token of ours stays where there was another one before: it asks for nothing by then.
                by_us = name == REQUESTED_AT and value is not None
                if name not in touched and not by_us and now[name] != value:
                    kernel.fail(f"I3: {key[0]} {key[1]}: {name} is {now[name]!r} and was {value!r}")


def _may_go_on(refused: FencectlError | None) -> bool:
    return refused is None


def _set_clock(agent: Agent, by_s: float) -> None:
    agent.process.wall_offset_s += by_s
    agent.process.say(f"its wall clock is set by {by_s:+.0f}s")


def void(_: object) -> None:
    """For actions whose result nobody wants."""


def tell(seed: int, scenario: Scenario | None = None) -> Told:
    """Play a seed."""
    scenario = scenario or draw(seed)
    stage = Stage(seed, scenario)
    kernel = stage.kernel
    try:
        with inline_reads(kernel):
            stage.play()
            stage.clean_up()
    finally:
        kernel.close()
    return Told(
        seed,
        scenario.words,
        kernel.steps,
        kernel.now_s,
        kernel.digest(),
        stage.monitor.counts,
        tuple(kernel.failures),
        tuple(kernel.trace),
    )
