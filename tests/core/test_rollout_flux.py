"""
Verdicts on Flux objects.

Aspects: revision · generation · suspended · stalled · failing again and again · Helm's own locks · kinds without status.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.rollout import Cause, RolloutVerdict as V
from fencectl.core.rollout_flux import helm_records, helm_release_of, matches
from tests.core.rolling_out import Raw, condition, look, obj

NEW, OLD = "main@sha1:4f2a91c07be3d855", "main@sha1:9be1c04477aa02d1"
READY = condition("Ready", reason="ReconciliationSucceeded", observedGeneration=2)


def kustomization(*found: Raw, spec: Raw | None = None, **status: Any) -> Raw:
    whole = {
        "observedGeneration": 2,
        "lastAppliedRevision": NEW,
        "lastAttemptedRevision": NEW,
        "conditions": list(found or (READY,)),
        **status,
    }
    kept = {key: value for key, value in whole.items() if value is not None}
    return obj("Kustomization", {"interval": "10m", **(spec or {})}, kept)


def not_ready(reason: str, message: str = "", status: str = "False", **more: Any) -> Raw:
    return condition("Ready", status, reason, message, **more)


@pytest.mark.parametrize(
    ("raw", "verdict", "cause"),
    [
        (kustomization(), V.SUCCEEDED, Cause.DONE),
        (kustomization(spec={"suspend": True}), V.UNKNOWN, Cause.SUSPENDED),
        (kustomization(lastAppliedRevision=OLD), V.WAITING, Cause.NOT_SEEN),
        (kustomization(lastAppliedRevision=None), V.WAITING, Cause.NOT_SEEN),
        (kustomization(READY | {"observedGeneration": 1}), V.WAITING, Cause.NOT_SEEN),
        (kustomization(condition("Ready"), observedGeneration=1), V.WAITING, Cause.NOT_SEEN),
        (kustomization(condition("Ready"), observedGeneration=None), V.WAITING, Cause.NOT_SEEN),
        (kustomization(condition("Ready")), V.SUCCEEDED, Cause.DONE),
        (kustomization(READY, condition("Reconciling", reason="Progressing")), V.WAITING, Cause.ROLLING),
        (kustomization(not_ready("Progressing", status="Unknown")), V.WAITING, Cause.ROLLING),
        (kustomization(not_ready("DependencyNotReady")), V.WAITING, Cause.ROLLING),
        (kustomization(not_ready("BuildFailed")), V.FAILED, Cause.CONDITION),
        (kustomization(not_ready("HealthCheckFailed"), lastAppliedRevision=OLD), V.FAILED, Cause.CONDITION),
        (kustomization(not_ready("HealthCheckFailed"), lastAppliedRevision=OLD, lastAttemptedRevision=OLD), V.WAITING, Cause.NOT_SEEN),
        (kustomization(READY, condition("Stalled", observedGeneration=2)), V.FAILED, Cause.CONDITION),
        (kustomization(READY, condition("Stalled", observedGeneration=1)), V.SUCCEEDED, Cause.DONE),
        (kustomization({"type": "Ready"}), V.UNKNOWN, Cause.MALFORMED),
        (kustomization(spec={"suspend": "true"}), V.UNKNOWN, Cause.MALFORMED),
        (kustomization(conditions={}), V.UNKNOWN, Cause.MALFORMED),
        (obj("Kustomization", {}, {}), V.WAITING, Cause.NOT_SEEN),
        (obj("Kustomization", {}, {"observedGeneration": -1}), V.WAITING, Cause.NOT_SEEN),  # as its CRD begins
        (obj("Kustomization", {}, None), V.WAITING, Cause.NOT_SEEN),
    ],
)  # fmt: skip
def test_kustomization_is_done_at_the_revision_and_generation_only(raw: Raw, verdict: V, cause: Cause) -> None:
    """Ready of the state before, and Ready while suspended, are no success."""
    found = look(raw, revision=NEW)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_failure_that_is_tried_again_counts_when_it_stays_or_comes_back() -> None:
    """In between it looks like progress."""
    found = look(kustomization(not_ready("BuildFailed", "no such file")), revision=NEW)
    assert (found.grace_s, found.times, found.reason) == (60.0, 3, "BuildFailed: no such file")


def test_third_revision_is_somebody_elses_unless_the_wanted_one_comes_soon() -> None:
    """Neither what was there before nor what was asked for: said, and not ours to judge."""
    third = "main@sha1:77777777deadbeef"
    found = look(
        kustomization(lastAppliedRevision=third), ours=kustomization(lastAppliedRevision=OLD), revision=NEW
    )
    assert (found.verdict, found.cause, found.grace_s) == (V.UNKNOWN, Cause.TAKEN_OVER, 60.0)
    assert found.reason == f"taken over: it has applied {third}, neither {NEW} nor what was there before"
    for ours, applied in ((kustomization(lastAppliedRevision=OLD), OLD), (None, third), (kustomization(), None)):
        assert look(kustomization(lastAppliedRevision=applied), ours=ours, revision=NEW).verdict is V.WAITING


def test_stalled_object_quotes_what_ready_says_as_well() -> None:
    """case_59: that there is nothing to go back to stands in Stalled alone, what failed in Ready."""
    raw = obj(
        "HelmRelease", {},
        {"observedGeneration": 2, "conditions": [
            not_ready("InstallFailed", "pod web crashed"),
            condition("Stalled", reason="MissingRollbackTarget", message="no previous release"),
        ]},
    )  # fmt: skip
    found = look(raw)
    assert (found.verdict, found.grace_s) == (V.FAILED, 0.0)
    assert found.reason == "Stalled: MissingRollbackTarget: no previous release; pod web crashed"


def test_helm_release_stuck_on_a_pending_record_fails_at_once() -> None:
    """case_09: whoever wrote it is gone; trying again never gets past it."""
    message = "Helm upgrade failed: another operation (install/upgrade/rollback) is in progress"
    raw = obj("HelmRelease", {}, {"observedGeneration": 2, "conditions": [not_ready("UpgradeFailed", message)]})
    found = look(raw)
    assert (found.verdict, found.grace_s) == (V.FAILED, 0.0)
    assert "stuck in a pending state" in found.reason


def record(version: str, status: str, at: str = "2026-11-30T01:00:00Z") -> Raw:
    return {
        "metadata": {"labels": {"owner": "helm", "version": version, "status": status}, "creationTimestamp": at}
    }


def test_pending_record_is_named_with_the_last_deployed_one() -> None:
    """case_09: by labels alone, which revision hangs since when, and which one to go back to."""
    records = [
        record("1", "superseded"),
        record("2", "deployed"),
        record("3", "pending-upgrade", "2026-11-30T01:47:00Z"),
    ]
    [line] = helm_records([*records, record("x", "pending-upgrade"), {}, None, 7])
    assert (line.at, line.reason) == ("2026-11-30T01:47:00Z", "pending-upgrade")
    assert line.message == "Helm's record 3 is pending since then; the last deployed one is 2"
    [first] = helm_records([record("1", "pending-install")])
    assert first.message.endswith("none was ever deployed")


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({}, ("shop", "web")),
        ({"targetNamespace": "prod"}, ("shop", "prod-web")),
        ({"targetNamespace": "prod", "releaseName": "app", "storageNamespace": "helm"}, ("helm", "app")),
    ],
)
def test_records_are_looked_for_where_helm_controller_keeps_them(spec: Raw, where: tuple[str, str]) -> None:
    assert helm_release_of(obj("HelmRelease", spec)) == where


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        ([{"status": "deployed", "chartVersion": "6.1.0"}, {"status": "superseded", "chartVersion": "6.0.0"}], V.SUCCEEDED),
        ([{"status": "failed", "chartVersion": "6.1.0"}], V.WAITING),
        ([{"status": "deployed", "chartVersion": "6.0.0"}], V.WAITING),
        ([], V.WAITING),
        ("deployed", V.WAITING),
    ],
)  # fmt: skip
def test_helm_release_is_done_when_its_newest_release_is_the_wanted_one(history: Any, verdict: V) -> None:
    """v2 has no lastAppliedRevision."""
    raw = obj("HelmRelease", {}, {"observedGeneration": 2, "history": history, "conditions": [READY]})
    assert look(raw, revision="6.1.0").verdict is verdict


def test_source_is_done_when_its_artifact_is_the_wanted_one() -> None:
    status = {"observedGeneration": 2, "artifact": {"revision": NEW}, "conditions": [READY]}
    assert look(obj("GitRepository", {}, status), revision="4f2a91c0").verdict is V.SUCCEEDED
    assert look(obj("GitRepository", {}, status), revision=OLD).verdict is V.WAITING


def test_kind_without_a_status_is_done_when_it_is_there() -> None:
    """Alert and Provider have no conditions since v1beta3."""
    assert look(obj("Alert", {"suspend": False})).verdict is V.SUCCEEDED


@pytest.mark.parametrize(
    ("seen", "wanted", "same"),
    [
        (NEW, NEW, True), (NEW, "4f2a91c", True), (NEW, "4f2a91c07be3d855", True), (NEW, "4f2a91", False),
        (NEW, "main", False), ("v6.1.0@sha1:abcdef12", "v6.1.0", True), (NEW, "4f2a91c1", False), (None, "4f2a91c", False), ("", "", False),
        ("6.1.0@sha256:abcdef12", "6.1.0", True), ("6.1.0", "6.1", False), ("v1@sha256:abcdef12", "abcdef1", True),
        (NEW, "", False), (NEW, "main@sha1:4f2a91c", True), (NEW, "sha1:4f2a91c", True),
        (NEW, "prod@sha1:4f2a91c", False), (NEW, "main@sha1:4f2a91", False), (NEW, "main@sha1:", False), (NEW, ":", False),
    ],
)  # fmt: skip
def test_revision_matches_as_a_person_writes_it(seen: str | None, wanted: str, same: bool) -> None:
    """Whole, or by its hash; a few digits are no hash."""
    assert matches(seen, wanted) is same
