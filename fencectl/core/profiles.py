"""
Profiles: the names under which fences are found.

`fencectl` is what this tool writes; `ghcr-bridge` reads the fences of another tool, which only a report and a
release may touch.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

LEASE_LABEL = "fencectl.dev/fence"
HOLDER = "fencectl.dev/holder"
JOURNAL = "fencectl.dev/journal"
NESTED = "fencectl.dev/nested"
FIELD_MANAGER = "fencectl"

RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
DISABLED = "disabled"
APPLIED_BY_NAME = "kustomize.toolkit.fluxcd.io/name"
APPLIED_BY_NAMESPACE = "kustomize.toolkit.fluxcd.io/namespace"
REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
SUSPENDED_BY = "fluxcd.controlplane.io/suspendedBy"

_BRIDGE = "platform.devantler.tech/"
BRIDGE_CHILD_OWNER = _BRIDGE + "ghcr-policy-handoff-owner"
BRIDGE_PARENT_OWNER = _BRIDGE + "ghcr-policy-parent-owner"
BRIDGE_NODE_OWNER = _BRIDGE + "ghcr-auth-drain-owner"
BRIDGE_NODE_PHASE = _BRIDGE + "ghcr-auth-drain-phase"
BRIDGE_NODE_JOURNAL = _BRIDGE + "ghcr-auth-drain-recovery"


class ProfileName(StrEnum):
    """The profiles there are."""

    FENCECTL = "fencectl"
    GHCR_BRIDGE = "ghcr-bridge"


class Profile(msgspec.Struct, frozen=True):
    """
    What a reader looks for.

    `lease` is the lease that is read by name whatever its labels say (config may name another one);
    `other_lease` belongs to the other profile and is only shown. `node_keys` and `flux_keys`: an object with
    any of these annotations may carry a fence. `flux_names`: Kustomizations (namespace, name) that matter whatever
    they carry. `by_label`: whether leases are also found by their label.
    """

    name: ProfileName
    lease: tuple[str, str]
    other_lease: tuple[str, str]
    node_keys: tuple[str, ...]
    flux_keys: tuple[str, ...]
    by_label: bool
    flux_names: tuple[tuple[str, str], ...] = ()


FENCECTL = Profile(
    name=ProfileName.FENCECTL,
    lease=("flux-system", "fencectl-deploy"),
    other_lease=("flux-system", "ghcr-auth-refresh"),
    node_keys=(HOLDER, JOURNAL),
    flux_keys=(HOLDER, JOURNAL),
    by_label=True,
)
GHCR_BRIDGE = Profile(
    name=ProfileName.GHCR_BRIDGE,
    lease=FENCECTL.other_lease,
    other_lease=FENCECTL.lease,
    node_keys=(BRIDGE_NODE_OWNER, BRIDGE_NODE_PHASE, BRIDGE_NODE_JOURNAL),
    flux_keys=(BRIDGE_CHILD_OWNER, BRIDGE_PARENT_OWNER),
    by_label=False,
    # NB: that tool's next run refuses over these two in states that leave no mark on them at all.
    flux_names=(("flux-system", "infrastructure"), ("flux-system", "flux-system")),
)
PROFILES = {profile.name: profile for profile in (FENCECTL, GHCR_BRIDGE)}
