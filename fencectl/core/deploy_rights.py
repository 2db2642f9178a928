"""What one deploy needs to be allowed, from its plan: asked before its first write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import NotReadableError
from fencectl.core.rights import Access

_NAMED = 3


def needed_by(plan: DeployPlan, *, inside: bool) -> tuple[Access, ...]:
    """
    Every permission that the fences, the record and the recovery point of a deploy need, each once.

    `inside`: of another run, whose lease and record it uses. What its manifests or its command need is not in it:
    the server's dry run answers for the first, nobody can for the second.
    """
    return tuple(dict.fromkeys(_needed(plan, inside=inside)))


def _needed(plan: DeployPlan, *, inside: bool) -> Iterator[Access]:
    namespace, name = plan.lease
    if not inside:
        yield Access("create", "coordination.k8s.io", "leases", namespace=namespace)
        yield Access("patch", "coordination.k8s.io", "leases", namespace=namespace, name=name)
        yield Access("create", "", "configmaps", namespace=namespace)
        yield Access("patch", "", "configmaps", namespace=namespace, name=f"{name}-record")
        # NB: what puts a recovery point back takes none, and has read it before this is asked.
        if plan.form not in (None, "restore"):
            for verb in ("get", "list", "create", "delete"):
                yield Access(verb, "", "secrets", namespace=namespace)
    for ref, _ in plan.suspend:
        yield Access("patch", ref.group, ref.plural, namespace=ref.namespace or "", name=ref.name)
    for ref in plan.nodes:
        yield Access("patch", "", "nodes", name=ref.name)
    if plan.nodes and plan.node_command:
        yield Access("list", "", "pods")
        yield Access("create", "", "pods", "eviction")
        yield Access("get", "apps", "daemonsets")


def refuse_without(may: Mapping[Access, bool | str], *, not_done: str, hint: str) -> None:
    """
    Raise NotReadableError (21) where the server says of a permission that it is not there.

    `not_done`: what is not begun, as `not deployed to prod`. An answer that is none refuses nothing: the write
    itself shows it then.
    """
    missing = list(dict.fromkeys(access.title for access, said in may.items() if said is False))
    if not missing:
        return
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    said = "a permission is missing" if len(missing) == 1 else f"{len(missing)} permissions are missing"
    raise NotReadableError(
        f"{not_done}: {said}",
        reason=f"{', '.join(missing[:_NAMED])}{more}. Nothing was changed",
        hint=hint,
    )
