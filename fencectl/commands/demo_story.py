"""
The story of the demo: a deploy is killed, `fences` shows what it left, the printed commands release it.

Each step does what it says, shows what was really said, and then looks at the cluster: the story goes on only
where it is true.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import takewhile

from fencectl.cluster.write import send
from fencectl.commands.demo_process import AT_WORK, Deployer, Ended
from fencectl.commands.demo_show import Narrator
from fencectl.commands.demo_stage import CHILD, LONG_COMMAND, NAMESPACE, NODE, PARENT, Fenced, Stage, typed
from fencectl.core.answers import Applied
from fencectl.core.errors import ExitCode
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.identity import parse_holder
from fencectl.core.report import FenceReport, HolderBlock
from fencectl.core.selection import select
from fencectl.core.times import age_text

FREE = Fenced()
_FLUX = (f"kustomization/{NAMESPACE}/{PARENT}", f"kustomization/{NAMESPACE}/{CHILD}")
HELD = 4
ROOM = 17
"""So many lines of the report leave room for the rest of its step, on a screen of 24."""


def play(stage: Stage, narrator: Narrator) -> None:
    """Play the five steps. Raises StepFailedError for the first that did not do what it says."""
    narrator.say("fencectl demo: a cluster inside this program; nothing else is touched. 5 steps.")
    with ExitStack() as after:
        deployer = after.enter_context(stage.deployer())
        holder = deploy_starts(stage, narrator, deployer)
        deploy_is_killed(stage, narrator, deployer, holder)
        left = fences_are_shown(stage, narrator, deployer.pid)
        fences_are_released(stage, narrator, left)
        next_deploy_goes_through(stage, narrator)
    narrator.say("")
    narrator.say("with your own hands: `fencectl demo --serve` prints a KUBECONFIG to try it on")


def deploy_starts(stage: Stage, narrator: Narrator, deployer: Deployer) -> str:
    """Step 1; return the holder."""
    narrator.step("a deploy starts: it takes the lease, suspends Flux, cordons a node")
    narrator.aside(f"kustomization/{NAMESPACE}/{PARENT} applies {CHILD}, so the deploy suspends both")
    narrator.command(f"{typed(*LONG_COMMAND)} &")
    said = deployer.begin()
    narrator.output(said)
    at_work = bool(said) and said[-1].endswith(AT_WORK)
    narrator.require("it placed all its fences, and its command runs", expected=True, found=at_work)
    stands = stage.fenced()
    narrator.check(
        f"on the cluster: process {deployer.pid} holds the lease, 2 suspensions and a cordon",
        expected=(deployer.pid, fenced_by(stands.holder)),
        found=(parse_holder(stands.holder).pid, stands),
    )
    return stands.holder


def deploy_is_killed(stage: Stage, narrator: Narrator, deployer: Deployer, holder: str) -> None:
    """Step 2."""
    narrator.step("it is killed: nobody releases anything")
    narrator.command(f"kill -9 {deployer.pid}")
    status = deployer.kill()
    narrator.check(f"process {deployer.pid} was ended by signal 9", expected=-signal.SIGKILL, found=status)
    narrator.check("its command has ended with it", expected=True, found=deployer.is_silent())
    narrator.check(
        f"node/{NODE} is still cordoned, Flux still suspended, the lease still taken",
        expected=fenced_by(holder),
        found=stage.fenced(),
    )
    turned_on = age_text(stage.clock.turn_on())
    narrator.aside(f"the demo turns its cluster's clock on by {turned_on}: the heartbeat stands still")
    code = refusal_code(stage.look_at_the_dead())
    narrator.command(typed("true"))
    refused = stage.deploy("true")
    narrator.output(_without_block(refused.lines))
    proven = code is ExitCode.HELD_DEAD
    narrator.check(
        f"every deploy is refused ({code.value}): "
        + ("its holder is dead, its fences are not" if proven else "nobody has proven its holder dead"),
        expected=(code.value, fenced_by(holder)),
        found=(refused.status, stage.fenced()),
    )


def fences_are_shown(stage: Stage, narrator: Narrator, pid: int) -> FenceReport:
    """Step 3; return the report that `fences` gave."""
    narrator.step("what is held, and is the holder really dead?")
    report = stage.look()
    narrator.require("one holder holds 4 fences", expected=(1, HELD), found=(len(report.blocks), len(report.held)))
    judgement = report.blocks[0].judgement
    narrator.command("fencectl fences")
    shown = stage.fencectl("fences")
    overview = "\n".join(takewhile(lambda line: not line.startswith("# release commands"), shown.lines))
    narrator.output(
        [*_fitting(overview.rstrip().splitlines()), f"… {HELD} release commands follow: step 4 runs them"]
    )
    check = shlex.split(judgement.check or "")
    if check and shutil.which(check[0]):
        narrator.command(judgement.check or "")
        narrator.output(stage.run(check).lines)
    narrator.check(
        f"process {pid} is gone: it will not come back to release anything",
        expected=(0, False, False),
        found=(shown.status, judgement.verdict is Verdict.LIVE, _runs(pid)),
    )
    return report


def fences_are_released(stage: Stage, narrator: Narrator, report: FenceReport) -> None:
    """Step 4."""
    block = report.blocks[0]
    if stage.kubectl:
        named = named_in(report)
        narrator.step("the printed commands release it, in order, with plain kubectl")
        narrator.command(f"{shlex.join(['fencectl', 'release', *named])} | sh")
        script = stage.fencectl("release", *named, joined=False)
        narrator.output(script.errors)
        released = stage.run(["sh"], input_text="".join(f"{line}\n" for line in script.lines))
    else:
        narrator.step("the printed patches release it, in order")
        narrator.aside("no kubectl on this machine: fencectl itself sends the very same bytes")
        released = _sent(stage, report, block)
    narrator.output(released.lines)
    narrator.check(
        "the node is schedulable, Flux reconciles, the lease is free, no mark is left",
        expected=(0, FREE),
        found=(released.status, stage.fenced()),
    )


def next_deploy_goes_through(stage: Stage, narrator: Narrator) -> None:
    """Step 5."""
    narrator.step("a second deploy goes through")
    narrator.command(typed("true"))
    deployed = stage.deploy("true")
    narrator.output(_without_steps(deployed.lines))
    narrator.check(
        "it fenced, and released all of it", expected=(0, FREE), found=(deployed.status, stage.fenced())
    )
    narrator.command("fencectl fences")
    shown = stage.fencectl("fences")
    narrator.output(shown.lines)
    report = stage.look()
    narrator.check(
        "nothing is held, and everything was read",
        expected=(0, True, 0),
        found=(shown.status, report.complete, len(report.held)),
    )


def fenced_by(holder: str) -> Fenced:
    """What a deploy of the demo fences."""
    return Fenced(
        holder=holder or "a holder",
        suspended=_FLUX,
        cordoned=(f"node/{NODE}",),
        marked=(*_FLUX, f"node/{NODE}"),
    )


def refusal_code(report: FenceReport) -> ExitCode:
    """The status of a deploy that is refused because of these fences, as a reader of the report would say it."""
    if report.blocks_with(Verdict.LIVE):
        return ExitCode.HELD_LIVE
    proven = all(block.judgement.strength is Strength.PROVEN for block in report.blocks)
    return ExitCode.HELD_DEAD if report.blocks and proven else ExitCode.HELD_PERSON_NEEDED


def named_in(report: FenceReport) -> tuple[str, ...]:
    """Return what `release` has to be told: an unknown holder's commands are printed only where it was named."""
    block = report.blocks[0]
    return () if block.judgement.verdict is Verdict.DEAD else ("--holder", block.holder.identity)


def _fitting(lines: Sequence[str]) -> list[str]:
    """Without its empty lines where a step would need more than a screen."""
    return [line for line in lines if line or len(lines) <= ROOM]


def _without_block(lines: Sequence[str]) -> list[str]:
    """A refusal without the part of the report that the next step shows."""
    if "" not in lines or "nothing was changed" not in lines:
        return list(lines)
    begins, ends = lines.index(""), lines.index("nothing was changed")
    return [*lines[:begins], "…", *lines[ends:]]


def _without_steps(lines: Sequence[str]) -> list[str]:
    """What a deploy said, without the steps that the first one showed already."""
    begun = [number for number, line in enumerate(lines) if line.endswith(AT_WORK)]
    return [lines[0], "…", *lines[begun[0] :]] if begun else list(lines)


def _sent(stage: Stage, report: FenceReport, block: HolderBlock) -> Ended:
    """Do what the script does: the same patches, in the same order, up to the first that is refused."""
    selection = select(report, holder=block.holder.identity, fences=())
    lines: list[str] = []
    for entry in selection.entries if selection is not None else ():
        if entry.release is None:
            return Ended(1, tuple(lines))
        answer = send(stage.transport, entry.release.patch)
        lines.append(f"{entry.object.display} {'patched' if isinstance(answer, Applied) else answer}")
        if not isinstance(answer, Applied):
            return Ended(1, tuple(lines))
    return Ended(0, tuple(lines))


def _runs(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
