"""
What a shell's completion offers beyond verbs and flags: contexts, and what is held on the cluster right now.

A key was pressed, and somebody waits: it has a budget from the start of the process, after which it offers
nothing; so each source imports what it needs and no more. Whatever goes wrong is nothing on offer, never an error
in the middle of a line. The shell puts what is chosen into that line as it stands, so a name that a shell would
act on is never offered.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencectl.commands.options import CommonOptions

if TYPE_CHECKING:
    from fencectl.core.assemble import Runs
    from fencectl.core.found import Found

BUDGET_S = 0.3
# So long a look may take however slow the machine was so far; half of it goes into imports.
LEAST_S = 0.2
# Python and the imports, where the system does not tell when this process began.
_START_S = 0.2
_WORD = re.compile(r"[A-Za-z0-9_./:@%+,][A-Za-z0-9_./:@%+,-]*", re.ASCII)
Offer = tuple[str, str]


def offer(what: str, params: Mapping[str, Any], incomplete: str) -> list[Offer]:
    """
    What there is of it, with a word on each: `contexts`, `fences`, `kept`, `mutating` or `holders`.

    `params`: of the line so far, by the names of the options.
    """
    found: list[Offer] = []

    def find() -> None:
        # NB: a completion has no place for an error; whoever runs the line is told.
        try:
            found.extend(_SOURCES[what](_options(params)))
        except Exception:  # noqa: BLE001
            found.clear()

    finding = threading.Thread(target=find, name="fencectl-complete", daemon=True)
    finding.start()
    finding.join(max(LEAST_S, _left_s()))
    if finding.is_alive():
        return []
    known = dict(reversed(found))
    return sorted(
        (name, why) for name, why in known.items() if name.startswith(incomplete) and _WORD.fullmatch(name)
    )


def _left_s() -> float:
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        began_s = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return BUDGET_S - (time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return BUDGET_S - _START_S


def _options(params: Mapping[str, Any]) -> CommonOptions:
    context = params.get("context")
    contexts = [context] if isinstance(context, str) else list(context or ())
    return CommonOptions(
        contexts=tuple(contexts[-1:]),
        kubeconfig=params.get("kubeconfig"),
        config=params.get("config"),
        profile=params.get("profile"),
    )


def _contexts(options: CommonOptions) -> Iterator[Offer]:
    """Of the kubeconfig, and the targets of the config by their names."""
    from fencectl.cluster.kubeconfig import list_contexts

    yield from ((name, "") for name in list_contexts(options.kubeconfig, os.environ, Path.home()))
    from fencectl.commands.common import resolve

    config = resolve(CommonOptions(kubeconfig=options.kubeconfig, config=options.config)).config
    for target in config.targets if config is not None else ():
        yield target.name, f"the target with the context {target.context}"


def _runs(options: CommonOptions) -> Runs:
    from fencectl.cluster.clock import SystemClock
    from fencectl.commands.common import resolve
    from fencectl.commands.reading import subjects

    effective = resolve(options)
    effective.one_target("completion")
    (subject,) = subjects(effective)
    clock = SystemClock()
    with subject.opened(clock) as door:
        return subject.runs(door, clock)


def _holders(options: CommonOptions) -> Iterator[Offer]:
    for group in _runs(options).groups:
        held = len(group.found)
        by_run = group.holder.run is not None
        yield (
            group.holder.column if by_run else group.holder.identity,
            f"{held} {'fence' if held == 1 else 'fences'}",
        )


def _fences(which: Callable[[Found], bool]) -> Callable[[CommonOptions], Iterator[Offer]]:
    def found(options: CommonOptions) -> Iterator[Offer]:
        for one in _runs(options).reading.found:
            if which(one):
                yield one.ref.display, f"{one.now}, {one.holder.column if one.holder else 'no holder'}"

    return found


def _mutating(options: CommonOptions) -> Iterator[Offer]:
    for one in _runs(options).reading.found:
        if one.phase == "mutating":
            yield one.ref.name, "left half changed"


_SOURCES: dict[str, Callable[[CommonOptions], Iterable[Offer]]] = {
    "contexts": _contexts,
    "holders": _holders,
    "fences": _fences(lambda one: True),
    "kept": _fences(lambda one: one.kept_because is not None),
    "mutating": _mutating,
}
