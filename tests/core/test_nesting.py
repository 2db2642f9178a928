"""
What a deploy inside of a deploy's command is told, when it believes that, and what it writes on the lease.

Aspects: handed on and read back · incomplete or forged · the lease in other hands, with another token, not beating ·
announced once, in the name of each run around · whose fences are inside of whom.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from fencectl.core.errors import ExitCode, UsageError
from fencectl.core.lease import free_own_lease
from fencectl.core.nesting import (
    VARIABLES,
    Around,
    announce,
    announced,
    depth,
    extra_of,
    handed_on,
    is_inside,
    read_around,
    why_not_believed,
)
from fencectl.core.patches import GuardedPatch
from fencectl.core.refs import Seen, dig
from tests.support.objects import HOLDER, NOW, OTHER, before, journal, lease

INNER = "4f2a91c07be3d855-gh18093344127.2-j51234567890-1111aaaa"
INNERMOST = "4f2a91c07be3d855-gh18093344127.2-j51234567890-2222bbbb"
LEASE = ("flux-system", "fencectl-deploy")
AROUND = Around(HOLDER, 119, LEASE, "https://prod:6443")
DEEPER = replace(AROUND, through=(INNER,))


def test_what_is_handed_on_is_read_back() -> None:
    """The outermost run, its lease, and every nested run in between."""
    for around in (AROUND, DEEPER):
        assert read_around(handed_on({"FENCECTL_SERVER": "https://prod:6443"}, around)) == around
    assert read_around(handed_on({}, AROUND)) == replace(AROUND, server=None)
    assert AROUND.deeper(INNER) == DEEPER
    assert read_around({"PATH": "/bin"}) is None
    assert depth(handed_on({}, DEEPER)) == 1


def test_nothing_of_another_run_around_is_handed_on() -> None:
    """A deploy of its own inside of a command names itself, and nobody of the other target."""
    inherited = handed_on({}, DEEPER)
    own = handed_on(inherited, Around(OTHER, 7, ("deploys", "x")))
    assert {key: own.get(key) for key in VARIABLES} == {
        "FENCECTL_HOLDER": OTHER,
        "FENCECTL_TOKEN": "7",
        "FENCECTL_LEASE": "deploys/x",
        "FENCECTL_SERVER": None,
        "FENCECTL_THROUGH": None,
    }


def test_clusters_that_are_named_in_the_environment_are_not_handed_on() -> None:
    """`FENCECTL_DEPLOY_CONTEXT="a b"` is about this process; its command's kubeconfig has the one that is fenced."""
    named = {
        "FENCECTL_DEPLOY_CONTEXT": "a b",
        "FENCECTL_FENCES_KUBECONFIG": "/elsewhere",
        "FENCECTL_DEPLOY_PRUNE": "1",
    }
    assert "FENCECTL_DEPLOY_PRUNE" in handed_on(named, AROUND)
    assert not {"FENCECTL_DEPLOY_CONTEXT", "FENCECTL_FENCES_KUBECONFIG"} & set(handed_on(named, AROUND))


def spec(**changed: Any) -> Seen:
    found = lease(renewed_at=before(3))
    found.raw["spec"].update(changed)
    return found


def patched(seen: Seen, patch: GuardedPatch) -> Seen:
    """Apply it by an independent library, which knows no `test` against something that is absent."""
    ops = [
        op
        for op in patch.operations
        if op.get("value", "") is not None or dig(seen.raw, *op["path"].split("/")[1:])
    ]
    return Seen(seen.ref, jsonpatch.apply_patch(json.loads(json.dumps(seen.raw)), json.dumps(ops)))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FENCECTL_HOLDER", "Run; rm -rf"),
        ("FENCECTL_HOLDER", "x" * 201),
        ("FENCECTL_TOKEN", None),
        ("FENCECTL_TOKEN", "0"),
        ("FENCECTL_TOKEN", "-1"),
        ("FENCECTL_TOKEN", "1²"),
        ("FENCECTL_TOKEN", str(2**31)),
        ("FENCECTL_LEASE", None),
        ("FENCECTL_LEASE", "fencectl-deploy"),
        ("FENCECTL_LEASE", "a/b/c"),
        ("FENCECTL_THROUGH", "A B"),
        ("FENCECTL_THROUGH", " ".join(["a"] * 9)),
    ],
)
def test_variable_that_no_deploy_writes_is_refused_by_its_name(variable: str, value: str | None) -> None:
    """Half of it, or a forged one, is no ordinary deploy either: it might run under somebody else's lease."""
    environ = handed_on({}, AROUND) | {variable: value or ""}
    with pytest.raises(UsageError) as raised:
        read_around(environ)
    assert raised.value.sentence.startswith(f"{variable} is not what a deploy hands to its command")
    assert raised.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (lease(renewed_at=before(19)), None),
        (lease(renewed_at=before(21)), "lease/flux-system/fencectl-deploy was not renewed for 21s"),
        (None, "lease/flux-system/fencectl-deploy is not there any more"),
        (spec(holderIdentity=""), "lease/flux-system/fencectl-deploy is free now"),
        (lease(holder=OTHER), "is held by"),
        (spec(leaseTransitions=120), "has token 120 now, not 119: it was in other hands meanwhile"),
        (spec(renewTime="soon"), "tells no usable time of its last renewal"),
    ],
)
def test_run_around_is_believed_only_while_it_holds_the_lease_and_beats(
    found: Seen | None, why: str | None
) -> None:
    """Two thirds of the duration, which is when it gives the lease up for lost itself."""
    said = why_not_believed(AROUND, found, now=NOW)
    assert said is None if why is None else why in (said or "")


def applied(seen: Seen, around: Around) -> Any:
    patch = announce(seen, around)
    assert patch is not None
    return patched(seen, patch)


@pytest.mark.parametrize(
    "annotations", [None, {"fencectl.dev/journal": "x"}, {"fencectl.dev/nested": "an-old-one"}]
)
def test_announcement_names_the_run_around_once(annotations: dict[str, str] | None) -> None:
    """What was left by an earlier holder's runs goes; a second run inside finds it there already."""
    after = applied(lease(annotations=annotations), AROUND)
    assert announced(after.raw) == (HOLDER,)
    assert announce(after, AROUND) is None
    deeper = applied(after, DEEPER)
    assert announced(deeper.raw) == (HOLDER, INNER)
    assert announce(deeper, AROUND) is None
    freed = patched(deeper, free_own_lease(deeper, holder=HOLDER, transitions=119))
    assert announced(freed.raw) == ()


@pytest.mark.parametrize("changed", [{"holderIdentity": OTHER}, {"leaseTransitions": 120}])
def test_announcement_on_a_lease_that_changed_hands_is_refused(changed: dict[str, Any]) -> None:
    """It is written under the guard that the run around still holds it."""
    patch = announce(lease(), AROUND)
    assert patch is not None
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        patched(spec(**changed), patch)


def test_fences_are_inside_of_every_run_around_them() -> None:
    """And of nobody else; a journal that says something odd is inside of nobody by it."""
    inner = journal(holder=INNER, within=HOLDER)
    innermost = journal(holder=INNERMOST, within=HOLDER, extra=extra_of(DEEPER))
    assert [is_inside(inner, run) for run in (HOLDER, INNER, OTHER)] == [True, False, False]
    assert [is_inside(innermost, run) for run in (HOLDER, INNER, INNERMOST)] == [True, True, False]
    assert not is_inside(journal(extra={"through": INNER}), INNER)
    assert (AROUND.rank, DEEPER.rank) == (2000, 4000)
