"""A healthy cluster of the other tool: its two Kustomizations are there, so nothing is called absent."""

from __future__ import annotations

from tests.e2e.conftest import Fencectl
from tests.support.clusters import Cluster, make_kustomization


def test_child_and_parent_that_carry_nothing_are_not_called_absent(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """They matter whatever they carry, so they are read by name."""
    make_kustomization(clean_cluster, "infrastructure")
    shown = fencectl("fences", "--profile", "ghcr-bridge")
    assert shown.code == 0
    assert "kustomization/flux-system/infrastructure" not in shown.stdout
    assert "kustomization/flux-system/flux-system" in shown.stdout
    assert "absent" in shown.stdout
    make_kustomization(clean_cluster, "flux-system")
    healthy = fencectl("fences", "--profile", "ghcr-bridge")
    assert "no fence is held" in healthy.stdout
    assert "absent" not in healthy.stdout


def test_child_with_a_reconcile_annotation_alone_is_shown(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """That tool's next run refuses over it, although nothing carries a mark."""
    make_kustomization(
        clean_cluster, "infrastructure", annotations={"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}
    )
    make_kustomization(clean_cluster, "flux-system")
    shown = fencectl("fences", "--profile", "ghcr-bridge")
    assert "kustomization/flux-system/infrastructure" in shown.stdout
