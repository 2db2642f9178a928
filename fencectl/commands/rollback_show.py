"""What `rollback` shows: what it would put back, and what came of it; all else as `deploy` does."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from fencectl.commands.deploy_left import left_lines
from fencectl.commands.deploy_live import STEPS
from fencectl.commands.deploy_show import Show
from fencectl.commands.deploy_streams import write_what_can
from fencectl.commands.rollback_text import back_text, is_back, restorations_data, summary, table
from fencectl.core.deploy import DeployPlan
from fencectl.core.past import Past
from fencectl.core.restore import Restoration
from fencectl.core.restored import Restored
from fencectl.report.escape import visible
from fencectl.report.words import count
from fencectl.run.stage import Result


class RollbackShow(Show):
    """Shows one rollback on one target."""

    noun = "rollback"
    not_done = "not rolled back on"
    kind = "RollbackResult"
    again = "roll back"
    steps = MappingProxyType({**STEPS, 8: "restore"})

    def restore(self, chosen: Past, restored: Restored, found: Sequence[Restoration], *, ends: bool) -> None:
        """What would be put back, before the first write. `ends`: it is the report, and nothing follows it."""
        if self._json:
            self._event(
                {
                    "type": "restore",
                    "undoes": chosen.generation,
                    "back": restored.back,
                    "summary": summary(found),
                    "objects": restorations_data(found),
                }
            )
            return
        revision = f" ({visible(chosen.revision)})" if chosen.revision else ""
        title = f"{self._label}: undoes generation {chosen.generation}{revision}, puts back {back_text(restored)}"
        lines = [title, summary(found), *table(found)]
        if ends:
            write_what_can(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
            self._say("nothing was changed")
        else:
            self._say(*lines)

    def _good(self, plan: DeployPlan, result: Result, took: str) -> list[str]:
        return [f"{self._done(result, took)}; nothing is fenced"]

    def _bad(self, result: Result, took: str, lease: str) -> list[str]:
        # NB: what is kept on purpose is no failure of the restore, and is told below.
        only_kept = is_back(result) and not left_lines(result, lease, self._label, self._err)
        return [self._done(result, took)] if only_kept else super()._bad(result, took, lease)

    def _done(self, result: Result, took: str) -> str:
        restored = result.rolled_back
        if restored is None:
            return f"{self._err.good} nothing was to be put back on {self._label}"
        objects = count(len(restored.touched), "object")
        what = f"rolled back generation {restored.generation} on {self._label} in {took}"
        new = f", {count(len(restored.new), 'new one stays', 'new ones stay')}" if restored.new else ""
        return f"{self._err.good} {what}: {back_text(restored)} is back, {objects} changed{new}"
