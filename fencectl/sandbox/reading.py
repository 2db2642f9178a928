"""The read path: get, list with pages, and what a list looks like."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.gojson import Obj, encode, quote
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.selectors import Matcher, field_matcher, label_matcher
from fencectl.sandbox.status import Cause
from fencectl.sandbox.storage import CompactedError, ObjectName, Storage

_EXPIRED_LIST = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - "
    "objects that were created, modified, or deleted between the time the first chunk was returned and now may "
    "show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list or a watch asks for."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""
    timeout_s: int | None = None
    bookmarks: bool = False
    initial_events: bool = False

    def matcher(self, resource: Resource) -> Matcher:
        labels = label_matcher(self.label_selector)
        fields = field_matcher(self.field_selector, resource=resource)
        return lambda obj: labels(obj) and fields(obj)


def read_list_options(query: Mapping[str, str]) -> ListOptions:
    """Read the query of a list or a watch."""

    def number(name: str) -> int:
        text = query.get(name, "")
        try:
            return int(text or 0)
        except ValueError:
            raise status.bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax") from None

    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    watching = query.get("watch", "") in ("true", "1")
    if match and not watching:
        _check_match(version, match, token=query.get("continue", ""))
    if version and not version.isdigit():
        why = f"strconv.ParseUint: parsing {quote(version)}: invalid syntax"
        text = f"invalid resource version: resourceVersion: Invalid value: {quote(version)}: {why}"
        raise status.bad_request(text)
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=number("limit"),
        token=query.get("continue", ""),
        version=version,
        match=match,
        timeout_s=number("timeoutSeconds") or None,
        bookmarks=query.get("allowWatchBookmarks", "") in ("true", "1"),
        initial_events=query.get("sendInitialEvents", "") in ("true", "1"),
    )


def _check_match(version: str, match: str, *, token: str) -> None:
    where = "resourceVersionMatch"
    causes = []
    if not version:
        causes.append(
            Cause(
                "FieldValueForbidden",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                where,
            )
        )
    if token:
        causes.append(
            Cause(
                "FieldValueForbidden",
                "Forbidden: resourceVersionMatch is forbidden when continue is provided",
                where,
            )
        )
    if match not in ("Exact", "NotOlderThan"):
        causes.append(
            Cause(
                "FieldValueNotSupported",
                f'Unsupported value: {quote(match)}: supported values: "Exact", "NotOlderThan", ""',
                where,
            )
        )
    if match == "Exact" and version == "0":
        causes.append(
            Cause(
                "FieldValueForbidden",
                'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
                where,
            )
        )
    if causes:
        raise status.invalid("ListOptions", group="meta.k8s.io", name="", causes=causes)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list."""

    items: list[Obj]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Obj:
        metadata: Obj = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def _encode_token(revision: int, start: ObjectName) -> str:
    key = "/".join(part for part in start if part) + "\x00"
    text = encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_token(token: str, *, namespaced: bool) -> tuple[int, ObjectName]:
    try:
        data: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        start = str(data["start"]).rstrip("\x00")
        revision = int(data["rv"])
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise status.bad_request(
            "invalid continue token: continue key is not valid: the token cannot be read"
        ) from None
    space, _, name = start.rpartition("/")
    return revision, (space if namespaced else "", name)


def list_objects(storage: Storage, resource: Resource, *, namespace: str, options: ListOptions) -> Page:
    """Return one page: a snapshot at the revision of the first page."""
    matches = options.matcher(resource)
    at: int | None = None
    start: ObjectName | None = None
    version = int(options.version or 0)
    if options.token:
        if version:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode_token(options.token, namespaced=resource.namespaced)
        at = revision if revision > 0 else None
    elif version > storage.revision:
        raise _too_new(version, storage.revision)
    elif options.match == "Exact" or (version and options.limit and not options.match):
        at = version or None
    try:
        rows, revision = storage.list(resource.key, at=at)
    except CompactedError:
        if start is None:
            raise status.expired("The resourceVersion for the provided list is too old.") from None
        raise status.expired(_EXPIRED_LIST, continue_token=_encode_token(-1, start)) from None
    found = [
        (name, obj)
        for name, obj in rows
        if (not namespace or name[0] == namespace) and (start is None or name > start) and matches(obj)
    ]
    # NB: a read of "any" version is answered from a cache that does not cut pages.
    limit = 0 if options.version == "0" and not options.token and options.match != "Exact" else options.limit
    if limit <= 0 or len(found) <= limit:
        return Page([obj for _, obj in found], revision)
    page, rest = found[:limit], found[limit:]
    selective = bool(options.label_selector or options.field_selector)
    return Page(
        [obj for _, obj in page],
        revision,
        token=_encode_token(revision, page[-1][0]),
        remaining=None if selective else len(rest),
    )


def _too_new(wanted: int, have: int) -> status.StatusError:
    return status.StatusError(
        504,
        reason="Timeout",
        message=f"Timeout: Too large resource version: {wanted}, current: {have}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
