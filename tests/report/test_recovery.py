"""
A recovery in words: plan, watch, steps, end.

Aspects: what changed meanwhile · rows and log lines · the last sentence · what is held besides · hostile text.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencectl.core.evidence import Verdict
from fencectl.core.outcome import Outcome
from fencectl.core.report import FenceReport
from fencectl.report import recovery
from fencectl.report.hints import hint_for, vouch_hint
from fencectl.report.style import PLAIN, WIDTH, cells
from tests.report import story
from tests.report.recovering import done, plan_of, steps_of, stopped, told, watched

DEAD = story.dead()
PLAN = plan_of(DEAD.blocks[0])
VERBS = story.VERBS | {"recover", "hold"}


def end(report: FenceReport, outcome: Outcome, **more: object) -> list[str]:
    plan = plan_of(report.blocks[0])
    free = not recovery.left_beside(report, [plan])
    return recovery.ending(report, plan, outcome, style=PLAIN, took_s=0.84, free=free)


def test_plan_fits_the_screen_and_says_what_will_be() -> None:
    """The dry run, as it was agreed on."""
    lines = recovery.plan_lines(DEAD, PLAN)
    assert all(cells(line) <= WIDTH for line in lines)
    assert lines[2:] == [
        "  1/5  node/worker-3                             drop the mark, stays cordoned",
        "  2/5  node/worker-2                             schedulable",
        "  3/5  kustomization/flux-system/infrastructure  reconciles",
        "  4/5  kustomization/flux-system/flux-system     reconciles",
        "  5/5  lease/flux-system/fencectl-deploy         free",
    ]


def test_plan_names_what_is_kept_without_a_number() -> None:
    """It is left alone, and nobody counts on it."""
    report = story.kept()
    kept = [line for line in recovery.plan_lines(report, plan_of(report.blocks[0])) if "KEPT" in line]
    assert kept
    assert all(line.startswith("  -") and line.endswith("KEPT, left alone") for line in kept)


def test_passing_time_is_no_change() -> None:
    """Ages, times and the watched heartbeat differ between two looks that show the same."""
    later = watched(DEAD)
    aged = replace(
        later.blocks[0],
        entries=tuple(replace(entry, age_s=(entry.age_s or 0) + 40) for entry in later.blocks[0].entries),
    )
    assert recovery.to_act_on(replace(later, blocks=(aged,))) == recovery.to_act_on(DEAD)


@pytest.mark.parametrize("what", ["patch", "verdict", "gone", "hold", "unowned"])
def test_change_of_what_is_acted_on_is_seen(what: str) -> None:
    """Each of them would otherwise be done without having been shown."""
    block = DEAD.blocks[0]
    first, *rest = block.entries
    second = rest[0]
    changed = {
        "patch": replace(DEAD, blocks=(replace(block, entries=(replace(first, release=second.release), *rest)),)),
        "verdict": replace(
            DEAD,
            blocks=(replace(block, judgement=replace(block.judgement, verdict=Verdict.UNKNOWN, strength=None)),),
        ),
        "gone": replace(DEAD, blocks=(replace(block, entries=tuple(rest)),)),
        "hold": replace(DEAD, holds=story.mixed().holds),
        "unowned": replace(DEAD, unowned=story.mixed().unowned),
    }[what]
    assert recovery.to_act_on(changed) != recovery.to_act_on(DEAD)


def test_heartbeat_is_told_as_a_line_of_the_block() -> None:
    """What the watch has shown, under the word that the block has for it."""
    assert recovery.heartbeat_lines(watched(DEAD), [PLAN], 40.0) == [
        "  heartbeat  watched for 40s: nothing has changed"
    ]
    assert recovery.heartbeat_lines(watched(DEAD), [plan_of(watched(DEAD).blocks[0])], 40.0) == [
        "  heartbeat  watched for 40s: stands still, last 01:47:02Z"
    ]


def test_log_lines_say_when_what_and_how_it_is_now() -> None:
    """Each stands alone in a log of other lines."""
    assert [recovery.step_line(step) for step in steps_of(PLAN)] == [
        "02:48:19Z  lease/flux-system/fencectl-deploy taken over from run 18093344127 attempt 2 job 51234567890",
        "02:48:19Z  1/5 released node/worker-3 (mark gone, still cordoned)",
        "02:48:19Z  2/5 released node/worker-2 (schedulable)",
        "02:48:19Z  3/5 released kustomization/flux-system/infrastructure (reconciles)",
        "02:48:19Z  4/5 released kustomization/flux-system/flux-system (reconciles)",
        "02:48:19Z  5/5 released lease/flux-system/fencectl-deploy (free)",
    ]


@pytest.mark.parametrize(
    ("result", "order", "detail", "line", "row"),
    [
        ("already", 3, "gone", "3/5 already released node/a (gone)", "3/5  node/a  gone already"),
        (
            "already",
            3,
            "lifted by somebody else meanwhile",
            "3/5 already released node/a (lifted by somebody else meanwhile)",
            "3/5  node/a  lifted by somebody else meanwhile",
        ),
        ("refused", 3, "it moved", "3/5 REFUSED node/a", "3/5  node/a  REFUSED"),
        (
            "handed-back",
            0,
            "as it was before",
            "node/a handed back, as it was before",
            "     node/a  handed back as it was",
        ),
        ("freed", 0, "free", "node/a free again", "     node/a  free"),
        ("taken", 0, "taken", "node/a taken", "     node/a  taken by this run"),
    ],
)
def test_every_result_has_its_words(result: str, order: int, detail: str, line: str, row: str) -> None:
    """In a log, and as a row at a terminal."""
    step = told(result, order, "node/a", detail)
    assert recovery.step_line(step) == f"02:48:19Z  {line}"
    mark = "✗" if result == "refused" else "✓"
    assert recovery.step_row(step, width=6, style=PLAIN) == f"  {mark} {row}"


def test_end_says_that_deploys_can_start_only_where_nothing_else_is_held() -> None:
    """The last words are what somebody goes back to bed on."""
    assert end(DEAD, done(PLAN)) == ["✓ released 5 of 5 on prod in 0.8s; deploys can start again"]
    held = replace(DEAD, holds=story.mixed().holds)
    assert end(held, done(PLAN)) == ["✓ released 5 of 5 on prod in 0.8s"]
    assert recovery.beside_lines(held, [PLAN]) == [
        "1 more fence is held: hold incident",
        "hint: `fencectl fences --context prod` shows whose",
    ]
    kept = story.kept()
    shown = end(kept, done(plan_of(kept.blocks[0])))
    assert "KEPT on purpose" in shown[0]
    assert "deploys can start again" not in "".join(shown)
    assert recovery.beside_lines(kept, [plan_of(kept.blocks[0])]) == []


def test_stop_half_way_names_what_is_still_held_and_the_next_step() -> None:
    """Released n, still held m, why, and what to do."""
    assert end(DEAD, stopped(PLAN)) == [
        "✗ stopped on prod: 2 released, 3 fences STILL HELD",
        "reason: spec.suspend was true when read, now it is absent; changed by `flux` at",
        "        02:48:17Z",
        "  still held: kustomization/flux-system/infrastructure",
        "  still held: kustomization/flux-system/flux-system",
        "  still held: lease/flux-system/fencectl-deploy",
        "hint: `fencectl recover --context prod` again takes every fence as it is now",
    ]


def test_foreign_text_in_a_step_takes_no_effect() -> None:
    """A holder's identity and an answer are somebody's text."""
    evil = "\x1b[2J::error::x"
    for step in (
        told("taken", 0, f"lease/{evil}", f"taken over from {evil}"),
        told("released", 1, "node/a", evil),
    ):
        for text in (recovery.step_line(step), recovery.step_row(step, width=6, style=PLAIN)):
            assert "\x1b" not in text
            assert not text.lstrip().startswith("::")


def test_kept_suspension_does_not_keep_the_rest_from_being_recovered() -> None:
    """The next step releases the others, and says what to do before that one."""
    first, second, third, *rest = DEAD.blocks[0].entries
    block = replace(
        DEAD.blocks[0], entries=(first, second, replace(third, kept=True, kept_because="rolled back"), *rest)
    )
    hint = hint_for([replace(DEAD, blocks=(block,))], verbs=VERBS, commands=False)
    assert hint is not None
    assert hint.startswith("`fencectl recover --context prod` does 4 of 5 in order")
    assert hint.endswith(" and leaves what is KEPT: merge the fix or the revert before that is released")


def test_mark_without_a_holder_takes_the_hint_at_recover_away() -> None:
    """It would refuse."""
    hint = hint_for([replace(DEAD, unowned=story.mixed().unowned)], verbs=VERBS, commands=False)
    assert "recover" not in (hint or "")


def test_node_to_vouch_for_is_hinted_at_only_where_it_is_what_stopped() -> None:
    """With every node that was vouched for before; a hold has a hint of its own."""
    report = story.refused()
    stuck = "nothing was released on prod: node/worker-3 cannot be released"
    hint = vouch_hint(report, stuck, verified=["worker-9"])
    assert hint is not None
    command = "fencectl recover --context prod --node-verified worker-9 --node-verified worker-3"
    assert hint.endswith(f"then vouch for it: {command}")
    assert vouch_hint(report, "nothing was released on prod: a hold incident is in place") is None
    assert vouch_hint(replace(report, profile="ghcr-bridge"), stuck) is None
