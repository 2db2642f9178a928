"""The report as OpenMetrics: for an alert on a fence that is held for too long, or on a report that has holes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fencectl.core.report import FenceEntry, FenceReport
from fencectl.report.escape import label_value

_FAMILIES = (
    ("fencectl_fence_held", None, "A fence that is held, or a cordon or suspension that is not ours."),
    (
        "fencectl_fence_age_seconds",
        "seconds",
        "Since when the fence has been held; absent where nobody wrote it down.",
    ),
    ("fencectl_report_complete", None, "Whether everything could be read; 0: a held fence may be missing."),
)


def as_openmetrics(reports: Sequence[FenceReport]) -> str:
    """Show reports as one exposition, with its end mark."""
    lines: list[str] = []
    for (name, unit, text), samples in zip(_FAMILIES, _samples(reports), strict=True):
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {text}"]
        lines += [f"{name}{{{labels}}} {value}" for labels, value in samples.items()]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _samples(reports: Sequence[FenceReport]) -> tuple[Mapping[str, str], ...]:
    # NB: one set of labels may occur once only in an exposition, or the whole of it is refused.
    held: dict[str, str] = {}
    ages: dict[str, tuple[float, str]] = {}
    complete: dict[str, str] = {}
    for report in reports:
        for entry in (*report.held, *report.not_ours):
            labels = ",".join(_labels(report, entry))
            held[labels] = "1"
            age_s = entry.age_s
            if age_s is not None and age_s >= ages.get(labels, (float("-inf"), ""))[0]:
                ages[labels] = (age_s, _number(age_s))
        complete[f'context="{label_value(report.label)}"'] = "1" if report.complete else "0"
    return held, {labels: text for labels, (_, text) in ages.items()}, complete


def _labels(report: FenceReport, entry: FenceEntry) -> Iterator[str]:
    judgement = entry.judgement
    values = {
        "context": report.label,
        "kind": entry.kind.value,
        # A Kustomization and a HelmRelease of one name would be one series otherwise.
        "resource": entry.object.kind.lower(),
        "namespace": entry.object.namespace or "",
        "name": entry.object.name if entry.kind.value != "hold" else entry.now,
        "holder": entry.holder_text or "",
        "ours": "true" if entry.ours else "false",
        "verdict": "unknown" if judgement is None else judgement.verdict.value,
    }
    for key, value in values.items():
        yield f'{key}="{label_value(value)}"'


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
