"""What form an answer takes: whole objects, metadata only, or a table."""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.sandbox import status

LISTS = ("PartialObjectMetadataList", "Table")
SINGLES = ("PartialObjectMetadata", "Table")
_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True)
class Form:
    """The form that was agreed on; `target` is empty for whole objects."""

    target: str = ""
    media_type: str = "application/json"

    @property
    def content_type(self) -> str:
        if not self.target:
            return self.media_type
        return f"{self.media_type};as={self.target};v=v1;g=meta.k8s.io"


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
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


def negotiate(accept: str, *, is_list: bool, is_watch: bool = False, allow_transform: bool = True) -> Form:
    """Choose the first form that the client takes and this answer can have."""
    if not accept.strip():
        return Form()
    targets = (LISTS if is_list else SINGLES) if allow_transform else ()
    if is_watch:
        targets = ("PartialObjectMetadata", "Table")
    for media, params in clauses(accept):
        if media not in ("application/json", "*/*", "application/*"):
            continue
        wanted = params.get("as", "")
        if not wanted:
            return Form()
        if wanted in targets and params.get("g") == "meta.k8s.io" and params.get("v") in ("v1", "v1beta1"):
            return Form(wanted)
    raise status.not_acceptable(_accepted(targets))


def _accepted(targets: tuple[str, ...]) -> list[str]:
    out = list(_TYPES)
    for target in targets:
        out += [f"application/json;as={target};v=v1;g=meta.k8s.io"]
    return out
