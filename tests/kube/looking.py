"""Look at a cluster of the tests as a user with a kubeconfig would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.observe import observe
from fencectl.cluster.transport import Transport
from fencectl.core.observation import Observation
from fencectl.core.profiles import FENCECTL, Profile
from tests.support.clusters import Cluster


@contextmanager
def opened(cluster: Cluster, *, user: str = "admin") -> Iterator[Transport]:
    """Open the way to the cluster as this user."""
    connection = resolve(str(cluster.kubeconfig_file(user)), None, {}, Path("/nonexistent"))
    transport = connection.open()
    try:
        yield transport
    finally:
        transport.close()


def look(cluster: Cluster, *, user: str = "admin", profile: Profile = FENCECTL, **options: Any) -> Observation:
    """Look once."""
    with opened(cluster, user=user) as transport:
        chosen: dict[str, Any] = {"clock": SystemClock(), "deadline_s": 30.0, **options}
        return observe(transport, profile=profile, server=cluster.url, context=cluster.name, **chosen)
