"""Ask the API server what this user may do: a SelfSubjectAccessReview for each permission; nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence

from fencectl.cluster.workers import Workers
from fencectl.cluster.write import Sender, create
from fencectl.core.answers import Applied, Refused, Unknown
from fencectl.core.refs import dig
from fencectl.core.rights import Access

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def ask_access(sender: Sender, accesses: Sequence[Access], *, deadline_s: float) -> dict[Access, bool | str]:
    """
    Say of each permission whether it is granted, or why nobody can say.

    The authorizer decides, also for what is granted by a group or a webhook.
    """
    found: dict[Access, bool | str] = {}
    workers = Workers()

    def ask(access: Access) -> None:
        said = _ask(sender, access, deadline_s)
        with workers.lock:
            found[access] = said

    for access in accesses:
        workers.add(access.title, lambda one=access: ask(one))  # type: ignore[misc]
    workers.run(timeout_s=deadline_s)
    with workers.lock:
        return {access: found.get(access, f"no answer within {deadline_s:g}s") for access in accesses}


def _ask(sender: Sender, access: Access, deadline_s: float) -> bool | str:
    wanted = {
        "verb": access.verb,
        "group": access.group,
        "resource": access.resource,
        "subresource": access.subresource,
        "namespace": access.namespace,
        "name": access.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in wanted.items() if value}},
    }
    match create(sender, REVIEWS, body, deadline_s=deadline_s):
        case Applied(raw):
            return dig(raw, "status", "allowed") is True
        case Refused(_, status, detail):
            return f"{status}: {detail}"
        case Unknown(detail):
            return detail
