"""The options of a write, read from its query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fencectl.sandbox.gojson import Obj, quote
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.status import Cause, bad_request, invalid

MAX_MANAGER = 128


@dataclass(slots=True)
class WriteOptions:
    """How a write was asked for. `warnings` are collected on the way and sent as headers."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    # Another resource whose fields are owned: an event written through events.k8s.io owns those of that version.
    owned_as: Resource | None = None
    # What admission adds to a new object; the writer does not own it.
    admit: Callable[[Resource, Obj], Obj] | None = None


def read_options(query: Mapping[str, str], *, user_agent: str, kind: str, is_apply: bool = False) -> WriteOptions:
    """Read and check `fieldManager`, `dryRun`, `fieldValidation` and `force`."""
    causes = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        causes.append(
            Cause(
                "FieldValueNotSupported",
                f'Unsupported value: [{quote(dry_run)}]: supported values: "All"',
                "dryRun",
            )
        )
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        causes.append(
            Cause(
                "FieldValueNotSupported",
                f'Unsupported value: {quote(validation)}: supported values: "", "Ignore", "Strict", "Warn"',
                "fieldValidation",
            )
        )
    manager = query.get("fieldManager", "")
    if len(manager) > MAX_MANAGER:
        causes.append(
            Cause("FieldValueTooLong", f"Too long: may not be more than {MAX_MANAGER} bytes", "fieldManager")
        )
    if is_apply and not manager:
        causes.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
    force = query.get("force", "")
    if force and not is_apply:
        causes.append(Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"))
    if force not in ("", "true", "false", "1", "0"):
        raise bad_request(f"strconv.ParseBool: parsing {quote(force)}: invalid syntax")
    if causes:
        raise invalid(kind, group="meta.k8s.io", name="", causes=causes)
    if not manager:
        manager = user_agent.split("/", 1)[0][:MAX_MANAGER] or "unknown"
    return WriteOptions(
        manager=manager, dry_run=dry_run == "All", validation=validation, force=force in ("true", "1")
    )
