"""What `doctor` found, for a person and for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencectl.core.doctor import Check, State, Value
from fencectl.report.escape import cut, visible
from fencectl.report.style import PLAIN, Style, pad, wrap
from fencectl.report.words import count

_NAME = 8


def as_lines(
    checks: Sequence[Check], values: Sequence[Value], *, style: Style = PLAIN, every: bool = False
) -> list[str]:
    """A line for each check, with its hint below; the values (all of them with `every`), and the sum."""
    marks = {State.OK: style.good, State.WARNING: style.look, State.FAILURE: style.failed}
    gap = max(len("✓" if style.unicode else "ok"), 1)
    rest = " " * (gap + 1 + _NAME + 2)
    lines: list[str] = []
    for check in checks:
        blank = " " * (gap - (1 if style.unicode or check.state is not State.OK else 2))
        first = f"{marks[check.state]}{blank} {pad(check.name, _NAME)}  "
        lines += wrap(visible(cut(check.what)), first=first, rest=rest)
        if check.hint:
            lines += wrap(visible(check.hint), first=f"{rest}hint: ", rest=rest)
    lines += _values(values, every=every)
    failed = sum(check.state is State.FAILURE for check in checks)
    warned = sum(check.state is State.WARNING for check in checks)
    lines.append(f"{failed} failed, {count(warned, 'warning')}")
    return lines


def _values(values: Sequence[Value], *, every: bool) -> list[str]:
    if not values:
        return []
    if every:
        width = max(len(value.key) for value in values)
        lines = ["values"]
        for value in values:
            said = f"{visible(value.value)} ({visible(value.origin)})"
            lines += wrap(said, first=f"  {pad(value.key, width)}  ", rest=" " * (width + 4))
        return lines
    told = [value for value in values if value.origin != "default"] or [
        value for value in values if value.key == "lease"
    ]
    said = ", ".join(f"{value.key} {visible(value.value)} ({visible(value.origin)})" for value in told)
    return wrap(f"{said}; all with -v", first="values    ", rest=" " * 12)


def as_data(label: str, server: str, checks: Sequence[Check], values: Sequence[Value]) -> dict[str, Any]:
    """The checks of one cluster as plain data."""
    return {
        "cluster": label or None,
        "server": server or None,
        "checks": [
            {"name": one.name, "state": str(one.state), "what": one.what, "hint": one.hint} for one in checks
        ],
        "values": [{"key": one.key, "value": one.value, "origin": one.origin} for one in values],
    }


def document(clusters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole answer."""
    return {"apiVersion": "fencectl.dev/v1", "kind": "DoctorReport", "clusters": list(clusters)}
