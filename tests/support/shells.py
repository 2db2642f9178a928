"""A person's shell: the real `sh`, the real kubectl and fencectl on its path, and a terminal where somebody answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import prefork
from tests.support.clusters import Cluster
from tests.support.deploys import HASTY
from tests.support.program import TIMEOUT_S, environment

CLIENT = Path(__file__).with_name("forkclient.py")


@dataclass(frozen=True, slots=True)
class Shell:
    """
    A shell of one user of a cluster, in a folder of his own.

    Its `fencectl` is `module` of this tree, which is the program with short times.
    """

    cluster: Cluster
    folder: Path
    env: Mapping[str, str]
    user: str = "admin"
    module: str = HASTY

    def run(self, script: str, *, answers: Sequence[tuple[str, str]] = ()) -> tuple[int, str]:
        """
        Run a script; give its status and all that it said, in order.

        `answers`: what is typed at its terminal once it has said the first of the two; without any, nobody is there.
        """
        server = prefork.server_for(self.module, self._environment())
        environ = self._environment() | {"FENCECTL_FORKS": str(server.descriptor)}
        if not answers:
            done = subprocess.run(
                ["sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environ, cwd=self.folder, pass_fds=[server.descriptor], timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
            return done.returncode, done.stdout.decode()
        return self._at_terminal(script, answers, environ, server.descriptor)

    def _environment(self) -> dict[str, str]:
        bin_ = self.folder / "bin"
        program = bin_ / "fencectl"
        if not program.exists():
            bin_.mkdir(parents=True)
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {CLIENT} "$@"\n')
            program.chmod(0o700)
        kubeconfig = self.cluster.kubeconfig_file(self.user, context="prod")
        path = f"{bin_}{os.pathsep}{self.cluster.kubectl_environment()['PATH']}"
        return environment(kubeconfig, PATH=path, HOME=str(self.folder), TERM="dumb", **self.env)

    def _at_terminal(
        self, script: str, answers: Sequence[tuple[str, str]], environ: Mapping[str, str], control: int
    ) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        process = subprocess.Popen(
            ["sh", "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environ), cwd=self.folder,
            pass_fds=[control], start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        said, waiting, end_s = "", list(answers), time.monotonic() + TIMEOUT_S
        try:
            while True:
                assert select.select([ours], [], [], max(0.0, end_s - time.monotonic()))[0], (
                    f"silent after:\n{said}"
                )
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                said += data.decode()
                if waiting and waiting[0][0] in said:
                    os.write(ours, f"{waiting.pop(0)[1]}\n".encode())
            assert not waiting, f"never asked {waiting[0][0]!r}:\n{said}"
            return process.wait(TIMEOUT_S), said.replace("\r", "")
        finally:
            process.kill()
            process.wait()
            os.close(ours)
