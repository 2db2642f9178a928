"""
The report for programs: JSON and YAML with a published, versioned schema (`schema/fence-report-v1.json`).

Keys are only ever added. Text is whole and exact; what a terminal would act on is spelled as an escape of the
format, so that decoding gives the very text and showing it changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fencectl.core.evidence import Judgement
from fencectl.core.identity import Holder
from fencectl.core.patches import CONTENT_TYPE
from fencectl.core.profiles import FIELD_MANAGER
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceEntry, FenceReport, HolderBlock
from fencectl.core.times import second_time
from fencectl.report.commands import command_of, where_of
from fencectl.report.escape import is_visible, json_visible, sub_unseen_yaml
from fencectl.report.shell import Shell

API_VERSION = "fencectl.dev/v1"
SCHEMA = "schema/fence-report-v1.json"
_NO_WRAP = 2**31 - 1


def to_json(reports: Sequence[FenceReport], *, shell: Shell = Shell.POSIX) -> str:
    """A FenceReport, or a FenceReportList for several contexts."""
    return encode_json(_document(reports, shell))


def to_yaml(reports: Sequence[FenceReport], *, shell: Shell = Shell.POSIX) -> str:
    """The same document as YAML."""
    return encode_yaml(_document(reports, shell))


def releases_to_json(report: FenceReport, entries: Iterable[FenceEntry], *, shell: Shell = Shell.POSIX) -> str:
    """The list of `release` objects, in the order given."""
    return encode_json(release_objects(report, entries, shell=shell))


def release_objects(
    report: FenceReport, entries: Iterable[FenceEntry], *, shell: Shell = Shell.POSIX
) -> list[dict[str, Any]]:
    """The `release` objects of these fences; those without a release are left out."""
    found = (_release(report, entry, shell) for entry in entries)
    return [one for one in found if one is not None]


def report_object(report: FenceReport, *, shell: Shell = Shell.POSIX) -> dict[str, Any]:
    """One report as plain data."""
    block_of = {id(entry): block for block in report.blocks for entry in block.entries}
    shown = [*report.held, *report.findings, *report.not_ours]
    return {
        "apiVersion": API_VERSION,
        "kind": "FenceReport",
        "context": report.context,
        "server": report.server,
        "clusterUid": report.cluster_uid,
        "profile": report.profile,
        "observedAt": second_time(report.observed_at),
        "skew_s": None if report.skew_s is None else round(report.skew_s, 3),
        "complete": report.complete,
        "unreadable": [{"what": part.what, "why": part.why} for part in report.unreadable],
        "read": {
            "leases": report.counts.leases,
            "nodes": report.counts.nodes,
            "fluxObjects": report.counts.flux_objects,
            "fluxKinds": report.counts.flux_kinds,
            "holds": report.counts.holds,
        },
        "notes": list(report.notes),
        "held": len(report.held),
        "fences": [_fence(report, entry, block_of.get(id(entry)), shell) for entry in shown],
    }


def _document(reports: Sequence[FenceReport], shell: Shell) -> dict[str, Any]:
    if len(reports) == 1:
        return report_object(reports[0], shell=shell)
    items = [report_object(report, shell=shell) for report in reports]
    return {"apiVersion": API_VERSION, "kind": "FenceReportList", "items": items}


def _fence(report: FenceReport, entry: FenceEntry, block: HolderBlock | None, shell: Shell) -> dict[str, Any]:
    judgement = entry.judgement or (block.judgement if block is not None else None)
    return {
        "kind": entry.kind.value,
        "object": ref_data(entry.object),
        "ours": entry.ours,
        "holder": _holder(entry, block),
        "since": time_data(entry.since),
        "age_s": None if entry.age_s is None else round(entry.age_s, 3),
        "evidence": [] if judgement is None else _evidence(judgement),
        "verdict": "unknown" if judgement is None else judgement.verdict.value,
        "strength": None if judgement is None or judgement.strength is None else judgement.strength.value,
        "because": None if judgement is None else judgement.because,
        "check": None if judgement is None else judgement.check,
        "kept": entry.kept,
        "keptBecause": entry.kept_because,
        "phase": entry.phase,
        "now": entry.now,
        "after": entry.after,
        "manager": entry.manager,
        "notes": list(entry.notes),
        "order": entry.order or None,
        "rank": entry.rank,
        "release": _release(report, entry, shell),
        "refusal": None if entry.refusal is None else entry.refusal.why,
        "refusalKind": None if entry.refusal is None else entry.refusal.kind.value,
        "advice": [] if entry.refusal is None else list(entry.refusal.advice),
    }


def _evidence(judgement: Judgement) -> list[dict[str, Any]]:
    return [
        {"source": fact.source.value, "question": fact.question, "answer": fact.answer, "at": second_time(fact.at)}
        for fact in judgement.evidence
    ]


def _holder(entry: FenceEntry, block: HolderBlock | None) -> dict[str, Any] | None:
    holder: Holder | None = entry.holder
    if holder is None and entry.holder_text is None:
        return None
    return {
        "identity": holder.identity if holder is not None else entry.holder_text,
        "kind": "opaque" if holder is None else holder.kind.value,
        "run": None if holder is None else holder.run,
        "attempt": None if holder is None else holder.attempt,
        "job": None if holder is None else holder.job,
        "repository": None if block is None else block.repository,
        "revision": None if holder is None else holder.revision,
        "workflow": None if block is None else block.workflow,
        "server": None if block is None else block.server_url,
        "runner": None if block is None else block.runner,
        "actor": None if block is None else block.actor,
        "host": None if holder is None else holder.host,
        "pid": None if holder is None else holder.pid,
        "podNamespace": None if holder is None else holder.pod_namespace,
        "podName": None if holder is None else holder.pod_name,
    }


def _release(report: FenceReport, entry: FenceEntry, shell: Shell) -> dict[str, Any] | None:
    if entry.release is None:
        return None
    patch = entry.release.patch
    return {
        "context": report.print_context,
        "server": report.server,
        "object": ref_data(patch.target),
        "fence": entry.object.display,
        "title": entry.release.title,
        "role": entry.release.role,
        "command": command_of(entry, where_of(report), shell=shell),
        "body": patch.body,
        "patch": patch.operations,
        "contentType": CONTENT_TYPE,
        "fieldManager": FIELD_MANAGER,
        "order": entry.order,
        "rank": entry.rank,
    }


def ref_data(ref: ObjectRef) -> dict[str, Any]:
    """An object's reference."""
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }


def time_data(at: datetime | None) -> str | None:
    """A time to the second; None where nobody knows it."""
    return None if at is None else second_time(at)


def encode_json(value: Any) -> str:
    """Pretty JSON in UTF-8; unseen characters stand as escapes."""
    # NB: json indents in Python only, which takes several times as long.
    import msgspec

    try:
        compact = json_visible(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        return msgspec.json.format(compact, indent=2) + "\n"
    except msgspec.DecodeError:
        # Half a surrogate pair, which JSON can spell and msgspec refuses.
        return json_visible(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"


def encode_yaml(value: Any) -> str:
    """YAML without aliases and folding, so that no line begins with text from elsewhere."""
    import yaml

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.CSafeDumper, data: str) -> yaml.ScalarNode:
        # NB: a single-quoted or plain scalar would carry its line breaks as they are.
        style = None if is_visible(data) else '"'
        whole = data.encode("utf-8", "replace").decode() if style else data
        return dumper.represent_scalar("tag:yaml.org,2002:str", whole, style=style)

    Dumper.add_representer(str, text)
    dumped: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_NO_WRAP)
    return sub_unseen_yaml(dumped)
