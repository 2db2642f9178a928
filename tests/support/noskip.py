"""
A pytest plugin for CI: a run in which anything was skipped, expected to fail or deselected is a failed run.

A skip is a courtesy to whoever has no Go at hand. Where the suite has to prove something, it would only hide
that it did not. Loaded with `-p tests.support.noskip`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_missed = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_missed] = []
    config.pluginmanager.register(_Watcher(config), "fencectl-noskip")


class _Watcher:
    """Collects what did not run. With xdist it works in the controller, which gets every worker's reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._missed = config.stash[_missed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._missed.append(f"{report.nodeid}: {_reason(report)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._missed.append(f"{report.nodeid}: {_reason(report)}")

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._missed.extend(f"{item.nodeid}: deselected" for item in items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._missed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missed:
            terminalreporter.section("did not run, which fails this run", red=True)
            for line in sorted(set(self._missed)):
                terminalreporter.line(line)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if getattr(report, "wasxfail", None) is not None:
        return "expected to fail"
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "skipped"
