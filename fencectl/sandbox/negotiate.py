"""What form an answer takes: whole objects, metadata only, or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fencectl.sandbox import status
from fencectl.sandbox.resources import Resource

MEDIA_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True)
class Form:
    """The form that was agreed on; `target` is empty for whole objects."""

    target: str = ""


@lru_cache(maxsize=256)
def clauses(accept: str) -> Sequence[tuple[str, Mapping[str, str]]]:
    """Split an Accept header into media types with their parameters, by preference."""
    out = []
    for position, clause in enumerate(accept.split(",")):
        media, *params = (part.strip() for part in clause.split(";"))
        pairs = dict(part.split("=", 1) for part in params if "=" in part)
        try:
            quality = float(pairs.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if media:
            out.append((quality, -position, media, pairs))
    return [(media, pairs) for _, _, media, pairs in sorted(out, key=lambda row: (row[0], row[1]), reverse=True)]


def negotiate(accept: str, *, resource: Resource, is_list: bool, is_watch: bool = False) -> Form:
    """Choose the first form that the client takes and this answer can have."""
    if not accept.strip():
        return Form()
    wanted = clauses(accept)
    if not resource.custom and not any(_is_served(media) for media, _ in wanted):
        # NB: for built-in kinds the router refuses, in words of its own.
        raise _router_refusal(with_streams=is_list or is_watch)
    for media, params in wanted:
        if media not in ("application/json", "*/*", "application/*"):
            continue
        target = params.get("as", "")
        if not target:
            return Form()
        if params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1"):
            continue
        if target == "Table" or (target == "PartialObjectMetadata" and is_watch):
            return Form(target)
        if target == "PartialObjectMetadataList":
            if is_list or is_watch:
                return Form(target)
            text = f"you requested {target}, but the requested object is not a list ({_go_type(resource)})"
            raise status.StatusError(406, reason="NotAcceptable", message=text)
        if target == "PartialObjectMetadata":
            if not is_list:
                return Form(target)
            text = f"you requested {target}, but the requested object is a list ({_go_type(resource)}List)"
            raise status.StatusError(406, reason="NotAcceptable", message=text)
    raise status.not_acceptable(MEDIA_TYPES)


def _is_served(media: str) -> bool:
    return media in ("*/*", "application/*", *MEDIA_TYPES)


def _go_type(resource: Resource) -> str:
    if resource.custom:
        return "*unstructured.Unstructured"
    return f"*{resource.group.split('.')[0] or 'core'}.{resource.kind}"


def _router_refusal(*, with_streams: bool) -> status.StatusError:
    streams = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
    shown = ", ".join((*MEDIA_TYPES, *streams) if with_streams else MEDIA_TYPES)
    text = f"406: Not Acceptable\n\nAvailable representations: {shown}"
    return status.StatusError(406, reason="NotAcceptable", message=text, details={})


def not_served() -> status.StatusError:
    """Refuse a form that discovery does not have."""
    return _router_refusal(with_streams=False)
