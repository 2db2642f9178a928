"""The bodies of writes: reading them, and refusing those of another kind."""

from __future__ import annotations

from fencectl.sandbox import protobuf, status
from fencectl.sandbox.gojson import NotJsonError, Obj, decode, kind_of
from fencectl.sandbox.patching import check_custom_kind, read_yaml, unregistered
from fencectl.sandbox.requests import Request
from fencectl.sandbox.resources import Resource

_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor")


def read_body(request: Request, *, kind: str = "") -> Obj:
    """Read the object of a POST or PUT."""
    must_be = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
    media = request.media_type
    if media == protobuf.MEDIA_TYPE:
        return protobuf.decode_body(request.body)
    if media and media not in ("application/json", "application/yaml"):
        raise status.unsupported_media(_BODIES[:3])
    text = request.body.decode("utf-8", "replace")
    if media == "application/yaml":
        body = read_yaml(text)
    else:
        try:
            body = decode(text) if text.strip() else {}
        except NotJsonError as err:
            raise status.bad_request(
                f"{must_be}couldn't get version/kind; json parse error: {err}{_excerpt(request.body)}"
            ) from err
    if not isinstance(body, dict):
        raise status.bad_request(
            f"{must_be}couldn't get version/kind; json parse error: json: cannot unmarshal {kind_of(body)} into "
            'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            f'Kind string "json:\\"kind,omitempty\\"" }}{_excerpt(request.body)}'
        )
    return body


def _excerpt(body: bytes) -> str:
    """Show the beginning of a body that could not be read: as text where it looks like JSON, else as hex."""
    if body.lstrip().startswith(b"{"):
        text = body.decode("utf-8", "replace")
        return f" ({text[:1024]} ...)" if len(text) > 1024 else f" ({text})"
    return f" ({body[:1024].hex()} ...)" if len(body) > 1024 else f" ({body.hex()})"


def check_kind(resource: Resource, sent: Obj, *, raw: bytes, known: set[tuple[str, str]]) -> None:
    api_version, kind = sent.get("apiVersion"), sent.get("kind")
    # NB: the real server takes a body without them for built-in kinds.
    if not resource.custom and not api_version and not kind:
        return
    if not kind or not api_version:
        missing = "Kind" if not kind else "apiVersion"
        text = raw.decode("utf-8", "replace")
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object '{missing}' is missing in '{text}'{_excerpt(raw)}"
        )
    if resource.custom:
        if api_version != resource.api_version and kind == resource.kind:
            raise status.bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        check_custom_kind(resource, sent)
        return
    if api_version != resource.api_version or kind != resource.kind:
        version = api_version.rpartition("/")[2]
        if (api_version, kind) in known:
            ours = f"({resource.group.split('.')[0] or 'core'}.{resource.kind})"
            why = f"converting (v1.{kind}) to {ours}: unknown conversion"
        else:
            why = unregistered(api_version, kind)
        raise status.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')
