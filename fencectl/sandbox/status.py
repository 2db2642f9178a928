"""
The API server's refusals, as errors that carry a whole Status.

Each constructor is one kind of refusal with the wording of the real server; callers add nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencectl.sandbox.gojson import Obj

PATCH_REFUSED = "the server rejected our request due to an error in our request"


class StatusError(Exception):
    """A request was refused; `body` is the Status that the client gets."""

    def __init__(
        self,
        code: int,
        *,
        reason: str,
        message: str,
        details: Obj | None = None,
        headers: Mapping[str, str] | None = None,
        metadata: Obj | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.metadata = metadata
        # What the request had said before it was refused: sent as headers all the same.
        self.warnings: list[str] = []

    @property
    def body(self) -> Obj:
        """The Status object, keys in the server's order."""
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata or {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class PlainTextError(Exception):
    """A refusal that the real server writes as plain text, not as a Status."""

    def __init__(self, code: int, text: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Cause:
    """One finding of a validation."""

    reason: str
    message: str
    field: str

    def as_dict(self) -> Obj:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def qualified(resource: str, group: str) -> str:
    """`resource.group`, as the server names a resource in its messages."""
    return f"{resource}.{group}" if group else resource


def _details(*, name: str = "", group: str = "", kind: str = "", **more: Any) -> Obj:
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update({key: value for key, value in more.items() if value})
    return details


def not_found(resource: str, *, group: str, name: str) -> StatusError:
    return StatusError(
        404,
        reason="NotFound",
        message=f'{qualified(resource, group)} "{name}" not found',
        details=_details(name=name, group=group, kind=resource),
    )


def path_not_found() -> StatusError:
    return StatusError(
        404,
        reason="NotFound",
        message="the server could not find the requested resource",
        details={},
    )


def already_exists(resource: str, *, group: str, name: str) -> StatusError:
    return StatusError(
        409,
        reason="AlreadyExists",
        message=f'{qualified(resource, group)} "{name}" already exists',
        details=_details(name=name, group=group, kind=resource),
    )


def conflict(resource: str, *, group: str, name: str, why: str) -> StatusError:
    return StatusError(
        409,
        reason="Conflict",
        message=f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        details=_details(name=name, group=group, kind=resource),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(causes: Sequence[Cause], *, message: str) -> StatusError:
    return StatusError(
        409, reason="Conflict", message=message, details={"causes": [cause.as_dict() for cause in causes]}
    )


def bad_request(message: str) -> StatusError:
    return StatusError(400, reason="BadRequest", message=message)


def unauthorized() -> StatusError:
    return StatusError(401, reason="Unauthorized", message="Unauthorized")


def forbidden(message: str, *, name: str = "", group: str = "", kind: str = "") -> StatusError:
    return StatusError(
        403, reason="Forbidden", message=message, details=_details(name=name, group=group, kind=kind)
    )


def invalid(kind: str, *, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Refuse a result that did not pass validation: the second shape of 422."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    return StatusError(
        422,
        reason="Invalid",
        message=f'{qualified(kind, group)} "{name}" is invalid: {text}',
        details=_details(name=name, group=group, kind=kind, causes=[cause.as_dict() for cause in causes]),
    )


def patch_refused() -> StatusError:
    """Refuse a patch that did not apply: the first shape of 422. It carries no text on purpose."""
    return StatusError(422, reason="Invalid", message=PATCH_REFUSED, details={})


def undecodable(shown: str, *, why: str) -> StatusError:
    """Refuse a patched object that cannot be decoded: the third shape, which quotes the whole object."""
    message = f"Invalid value: {shown}: {why}"
    return StatusError(
        422,
        reason="Invalid",
        message=f' "" is invalid: patch: {message}',
        details={"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]},
    )


def too_large(message: str) -> StatusError:
    return StatusError(413, reason="RequestEntityTooLarge", message=message)


def unsupported_media(accepted: Sequence[str]) -> StatusError:
    return StatusError(
        415,
        reason="UnsupportedMediaType",
        message="the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def unsupported_patch() -> StatusError:
    # NB: patches are turned away by the router, which has a text of its own.
    return StatusError(415, reason="UnsupportedMediaType", message="415: Unsupported Media Type", details={})


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    return StatusError(
        406,
        reason="NotAcceptable",
        message=f"only the following media types are accepted: {', '.join(accepted)}",
    )


def method_not_allowed() -> StatusError:
    return StatusError(
        405,
        reason="MethodNotAllowed",
        message="the server does not allow this method on the requested resource",
        details={},
    )


def expired(message: str, *, continue_token: str = "") -> StatusError:
    return StatusError(
        410,
        reason="Expired",
        message=message,
        metadata={"continue": continue_token} if continue_token else None,
    )
