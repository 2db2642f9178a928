"""Aspects: what answers prove of the server's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from fencectl.cluster.read import ServerClock

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_without_an_answer_nothing_is_known() -> None:
    """Neither a time nor a difference is made up."""
    assert (ServerClock().latest, ServerClock().skew_s) == (None, None)


def test_difference_below_the_resolution_of_date_is_none() -> None:
    """A Date is cut to the second: 0.9 s later may be the very same moment."""
    clock = ServerClock()
    clock.saw(at(0), sent_at=at(0.2), received_at=at(0.9))
    assert clock.skew_s == 0


def test_difference_is_the_least_that_the_answer_proves() -> None:
    """The server answered between sending and receiving, within the second that it named."""
    behind, ahead = ServerClock(), ServerClock()
    ahead.saw(at(0), sent_at=at(60), received_at=at(60.5))
    behind.saw(at(60), sent_at=at(0), received_at=at(0.5))
    assert (ahead.skew_s, behind.skew_s) == (59, -59.5)


def test_latest_answer_gives_the_time() -> None:
    """Answers of several threads come in any order."""
    clock = ServerClock()
    for second in (3, 5, 4):
        clock.saw(at(second), sent_at=at(second), received_at=at(second))
    assert clock.latest == at(5)


def test_clock_that_was_set_meanwhile_still_gives_a_difference() -> None:
    """Two answers that contradict each other do not break the report."""
    clock = ServerClock()
    clock.saw(at(0), sent_at=at(0), received_at=at(0))
    clock.saw(at(100), sent_at=at(0), received_at=at(0))
    assert clock.skew_s is not None
    assert -100 < clock.skew_s < 0


@given(
    st.floats(-1000, 1000),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=5),
)
def test_difference_is_never_larger_than_it_is(
    true_skew_s: float, answers: list[tuple[float, float, float]]
) -> None:
    """Whatever the latency, what is said is at most the true difference, and off by one second and the latency."""
    clock = ServerClock()
    for server_s, way_there_s, way_back_s in answers:
        ours_s = server_s + true_skew_s
        clock.saw(
            at(server_s).replace(microsecond=0),
            sent_at=at(ours_s - way_there_s),
            received_at=at(ours_s + way_back_s),
        )
    said_s = clock.skew_s
    assert said_s is not None
    assert abs(said_s) <= abs(true_skew_s) + 1e-4
    assert abs(true_skew_s - said_s) <= 1 + min(a[1] + a[2] for a in answers) + 1e-4
