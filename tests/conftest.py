"""
Fixtures: the two clusters that tests run on.

`cluster` runs a test on both. `clean_cluster` does, and starts with nothing on it: for tests of a whole report.
`sandbox_cluster` and `real` are for tests that need one of them.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

import fencectl
from tests.support import prefork
from tests.support.clusters import Cluster
from tests.support.realcluster import USERS, RealCluster

if TYPE_CHECKING:
    from fencectl.sandbox import Sandbox

MATRIX_CELL = "::test_struck_deploy"

BOTH = [pytest.param("sandbox", id="sandbox"), pytest.param("real", id="real", marks=pytest.mark.real)]


# NB: a shell without a terminal starts what runs in the background (`nohup .ci/run &`) with these ignored, every
# process below inherits that, and a test of a signal would wait for an end that never comes.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crash matrix")
    group.addoption(
        "--matrix-real",
        action="store_true",
        help="strike each write of a deploy in each way on the real API server (default: one write in each way)",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of what is made by rules has passed: cells of the crash matrix, blocks of runbooks, seeds."""
    passed = [report for report in terminalreporter.stats.get("passed", ()) if report.when == "call"]
    cells = [report.nodeid for report in passed if MATRIX_CELL in report.nodeid]
    if cells:
        real = sum("on_a_real_server" in name for name in cells)
        terminalreporter.write_line(
            f"crash matrix: {len(cells) - real} cells in process on the sandbox,"
            f" {real} with processes on a real API server"
        )
    told = [one for report in passed for one in report.user_properties]
    run = {block for name, value in told if name == "runbook_blocks" for block in value.split()}
    if run:
        terminalreporter.write_line(f"runbooks: {len(run)} command blocks were run in the state that they are for")
    # NB: here and not beside the simulation, whose own conftest a run of everything does not ask with several workers.
    total: Counter[str] = Counter()
    for name, value in told:
        if name == "simulated":
            total.update(value)
    if total:
        terminalreporter.write_line("simulated: " + ", ".join(f"{n} {name}" for name, n in total.items()))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """
    Leave the collection unmeasured, once every module has been imported.

    pytest calls millions of functions to find the tests, and the line tracer looks at each.
    """
    collects = hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None)
    cover = session.config.pluginmanager.getplugin("_cov") if collects else None
    measuring = cover.cov_controller if cover is not None else None
    if measuring is None:
        return (yield)
    for module in pkgutil.walk_packages(fencectl.__path__, "fencectl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    measuring.pause()
    try:
        return (yield)
    finally:
        measuring.resume()


# Runs of the program by the dozen, each along the lines of the ones in `test_deploy.py` and `test_recover.py`.
REPEATED = tuple(
    f"tests/e2e/{name}.py::"
    for name in (
        "test_deploy_contended",
        "test_deploy_killed",
        "test_deploy_nested",
        "test_deploy_struck",
        "test_hold",
        "test_recover_at_odds",
        "test_recover_refusals",
        "test_release_chain",
    )
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Leave unmeasured what goes where another test has been measured.

    The line tracer doubles what a test costs: the examples that hypothesis makes, a test on the real cluster that
    runs on the sandbox too, and what is marked `no_cover` because it repeats one thing very often.
    """
    twins = {item.nodeid for item in items}
    for item in items:
        made = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        twin = item.nodeid.replace("[real", "[sandbox")
        if made or item.nodeid.startswith(REPEATED) or (twin != item.nodeid and twin in twins):
            item.add_marker(pytest.mark.no_cover)


def pytest_collection_finish() -> None:
    """Let the garbage collector never look at the thousands of tests again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let the processes of a test that is not measured not be measured either."""
    if item.get_closest_marker("no_cover") is None:
        return (yield)
    measured = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("COVERAGE_PROCESS_")}
    try:
        return (yield)
    finally:
        os.environ.update(measured)


@pytest.fixture(scope="session", autouse=True)
def forking_ends() -> Iterator[None]:
    """End the processes that fork before the session does, so that what they have measured counts."""
    yield
    prefork.close()


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[RealCluster]:
    """Start a real API server once per session (with xdist: per worker), Flux's CRDs on it."""
    with RealCluster(flux_crds=True) as running:
        yield running


@pytest.fixture(scope="session")
def real_handle(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Keep one handle on the real cluster, so that connections and kubectl's discovery cache are used again."""
    handle = Cluster("real", real_cluster, tmp_path_factory.mktemp("real"))
    yield handle
    handle.close()


@pytest.fixture
def real(real_handle: Cluster) -> Iterator[Cluster]:
    """Give the real cluster, and take away afterwards what the test left on it."""
    yield real_handle
    real_handle.wipe()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Start a sandbox of the test's own."""
    from fencectl.sandbox import Sandbox

    with Sandbox() as running:
        for user in USERS:
            running.users.add(user)
        yield running


@pytest.fixture
def sandbox_cluster(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a sandbox of the test's own, as a cluster."""
    handle = Cluster("sandbox", sandbox, tmp_path_factory.mktemp("sandbox"))
    yield handle
    handle.close()


@pytest.fixture(params=BOTH)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Run the test on both clusters."""
    handle: Cluster = request.getfixturevalue("sandbox_cluster" if request.param == "sandbox" else "real")
    return handle


@pytest.fixture
def clean_cluster(cluster: Cluster) -> Cluster:
    """Run the test on both clusters, each without nodes, Flux objects, leases, configmaps and secrets."""
    if cluster.name == "real":  # a sandbox is new for each test
        cluster.wipe(everything=True)
    return cluster
