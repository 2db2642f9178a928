"""`fencectl demo`: the story of a killed deploy, on a cluster inside this program; no cluster is needed."""

from __future__ import annotations

import sys

from fencectl.commands.demo_show import Narrator, StepFailedError
from fencectl.commands.demo_stage import staged
from fencectl.commands.demo_story import play
from fencectl.commands.options_acting import DemoOptions
from fencectl.commands.output import style_of
from fencectl.core.errors import ExitCode


def run(options: DemoOptions) -> ExitCode:
    """Play the story, or keep its cluster up; 0 only if every step did what it says."""
    if options.serve:
        from fencectl.commands.demo_serve import serve

        return serve()
    stops = not options.yes and sys.stdin.isatty() and sys.stdout.isatty()
    narrator = Narrator(style_of(sys.stdout, options.color), stops=stops)
    with staged() as stage:
        try:
            play(stage, narrator)
        except StepFailedError as failed:
            return failed.exit_code
    return ExitCode.OK
