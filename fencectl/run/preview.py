"""
Before the first write: which object each manifest is, as it is now, and what the server says an apply would do.

Every object is read and tried (`dryRun=All`) whole; what could not be read ends it, since a conflict may be hidden
there. Reads and dry runs only: nothing is changed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.clock import Clock
from fencectl.cluster.read import ReadFailedError
from fencectl.cluster.workers import Workers
from fencectl.cluster.write import apply
from fencectl.core.answers import Applied, ApplyAnswer, Conflicted, Refused, Unknown, Why
from fencectl.core.applies import Configuration, configure, in_order, kinds_defined
from fencectl.core.apply_plan import Change, Planned, What
from fencectl.core.diffing import field_changes
from fencectl.core.errors import NotReadableError, UsageError
from fencectl.core.manifest_text import ManifestError
from fencectl.core.manifests import Manifest, refuse_twins
from fencectl.core.profiles import HOLDER
from fencectl.core.refs import ObjectRef, Raw, annotations_of, dig
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, StoppedError

# One request of a preview. A webhook that is asked may take 10 s, and there may be several.
TRY_S = 35.0
TRIES = 3
_NO_DRY_RUN = "does not support dry run"
NOTHING_CHANGED = "Nothing was changed"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A manifest and the object that it is. `definition`: of this deploy, where its kind comes with it."""

    manifest: Manifest
    ref: ObjectRef
    definition: str | None = None
    has_status: bool = True


def resolve(
    manifests: Sequence[Manifest],
    resources: ApiResources,
    *,
    namespace: str,
    enforced: bool,
    before: Sequence[Manifest] = (),
) -> tuple[Resolved, ...]:
    """
    Say of each manifest which object it is, in the order of applying. `namespace`: where those go that name none.

    `enforced`: it was asked for, so that a manifest which names another is refused. `before`: what is applied
    earlier in the same deploy, and may bring kinds. Raises UsageError where the
    cluster has no such kind, ManifestError with both places for one object that is there twice, NotReadableError.
    """
    defined = kinds_defined((*before, *manifests))
    found: list[Resolved] = []
    for one in in_order(manifests):
        try:
            kind = resources.find(one.api_version, one.kind)
        except ReadFailedError as failed:
            raise NotReadableError(
                f"the kinds of {one.api_version} could not be read", reason=f"{failed.why}. {NOTHING_CHANGED}"
            ) from failed
        coming = defined.get((one.api_version, one.kind))
        if kind is None and coming is None:
            raise UsageError(
                f"{one.where}: the cluster has no {one.kind} in {one.api_version}",
                hint=f"`kubectl api-resources` lists what it has. {NOTHING_CHANGED}",
            )
        plural = kind.plural if kind is not None else coming.plural if coming is not None else ""
        namespaced = kind.namespaced if kind is not None else coming is not None and coming.namespaced
        if namespaced and enforced and one.namespace not in (None, namespace):
            raise ManifestError(
                one.where, f"{one.display} names the namespace {one.namespace}, and `-n` says {namespace}"
            )
        where = (one.namespace or namespace) if namespaced else None
        ref = ObjectRef(one.api_version, one.kind, plural, where, one.name, "")
        if kind is not None:
            found.append(Resolved(one, ref, has_status=resources.has_status(kind)))
        elif coming is not None:
            found.append(Resolved(one, ref, coming.definition, coming.has_status))
    places = {id(one.manifest): one.ref.namespace for one in found}
    refuse_twins([one.manifest for one in found], lambda one: places[id(one)])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be applied, and what each apply would do; both in the order of applying."""

    objects: tuple[Planned, ...]
    changes: tuple[Change, ...]


class Previewer:
    """Reads and tries objects, a few at a time."""

    def __init__(self, door: Door, clock: Clock, *, stop: threading.Event, force: bool) -> None:
        self._door = door
        self._clock = clock
        self._stop = stop
        self._force = force

    def preview(
        self,
        resolved: Sequence[Resolved],
        *,
        fenced: Callable[[ObjectRef], bool],
        labels: Mapping[str, str],
        before: Sequence[Manifest] = (),
    ) -> Preview:
        """
        Read and try every object. `fenced`: whether it will be under a fence of this run.

        `before`: what is applied earlier in the same deploy, and may bring namespaces.

        Raises NotReadableError, with what could not be read; StoppedError where it was told to stop.
        """
        manifests = (*before, *(one.manifest for one in resolved))
        new_namespaces = {one.name for one in manifests if (one.group, one.kind) == ("", "Namespace")}
        results: dict[int, tuple[Planned, Change]] = {}
        workers = Workers()

        def work(number: int, one: Resolved) -> None:
            if self._stop.is_set():
                workers.stop()
                return
            made = self._one(one, fenced(one.ref), labels, new_namespaces)
            with workers.lock:
                results[number] = made

        for number, one in enumerate(resolved):
            workers.add(one.ref.display, partial(work, number, one))
        # NB: each request has its own end, so the sum has one too.
        workers.run(timeout_s=TRY_S * TRIES * 2 * max(1, len(resolved)))
        if self._stop.is_set():
            raise StoppedError("interrupted")
        if len(results) < len(resolved):
            raise NotReadableError("the objects could not be read in time", reason=NOTHING_CHANGED)
        ordered = [results[number] for number in range(len(resolved))]
        return Preview(tuple(one for one, _ in ordered), tuple(change for _, change in ordered))

    def _one(
        self, one: Resolved, fenced: bool, labels: Mapping[str, str], new_namespaces: Collection[str]
    ) -> tuple[Planned, Change]:
        live = self._live(one.ref) if one.definition is None else None
        # NB: a mark that is there although the deploy may begin is that of the run around this one.
        fenced = fenced or (live is not None and HOLDER in annotations_of(live))
        configuration = configure(one.manifest, one.ref, fenced=fenced, labels=labels)
        uid, version = (str(dig(live, "metadata", key) or "") for key in ("uid", "resourceVersion"))
        target = ObjectRef(one.ref.api_version, one.ref.kind, one.ref.plural, one.ref.namespace, one.ref.name, uid)
        configuration = replace(configuration, target=target)
        held = fenced and one.ref.kind != "Node"
        planned = Planned(configuration, version or None, one.definition, one.has_status, held)
        change = Change(target, What.UNTRIED, left_out=configuration.left_out, where=one.manifest.where)
        if one.definition is not None:
            return planned, replace(change, why=f"its kind comes with {one.definition}")
        comes = target.namespace in new_namespaces
        answer = self._try(configuration)
        if live is None and comes and isinstance(answer, Refused) and answer.status in (403, 404):
            return planned, replace(change, why=f"its namespace {target.namespace} comes with this deploy")
        if isinstance(answer, Applied):
            planned = replace(planned, tried=answer.raw)
        return planned, _judged(change, answer, live)

    def _live(self, ref: ObjectRef) -> Raw | None:
        found = self._door.get(ref.path, deadline_s=TRY_S)
        if found.status == 404:
            return None
        if found.ok:
            raw = json.loads(found.body)
            if isinstance(raw, dict):
                return raw
        raise NotReadableError(
            f"{ref.display} could not be read",
            reason=f"{_status(found.status, 'get', ref)}. {NOTHING_CHANGED}",
        )

    def _try(self, configuration: Configuration) -> ApplyAnswer:
        tries = 0
        while True:
            answer = apply(self._door, configuration, force=self._force, dry_run=True, deadline_s=TRY_S)
            tries += 1
            passing = isinstance(answer, Unknown) or (isinstance(answer, Refused) and answer.why is Why.BUSY)
            if not passing or tries >= TRIES or self._stop.is_set():
                return answer
            self._clock.wait(self._stop, PAUSE_S)


def _judged(change: Change, answer: ApplyAnswer, live: Raw | None) -> Change:
    ref = change.ref
    match answer:
        case Applied(raw):
            if live is None:
                return replace(change, what=What.CREATE)
            fields = field_changes(live, raw)
            return replace(change, what=What.CHANGE if fields else What.SAME, fields=fields)
        case Conflicted(conflicts):
            return replace(change, what=What.CONFLICT, conflicts=conflicts)
        case Refused(Why.FORBIDDEN, status, detail):
            raise NotReadableError(
                f"{ref.display} could not be tried: {_status(status, 'patch', ref)}",
                reason=f"{detail}. {NOTHING_CHANGED}",
            )
        case Refused(Why.BUSY, status, detail):
            raise NotReadableError(
                f"{ref.display} could not be tried: the API server is busy ({status})",
                reason=f"{detail}. {NOTHING_CHANGED}",
            )
        case Refused(_, status, detail) if _NO_DRY_RUN in detail:
            return replace(change, what=What.UNTRIED, why=detail or str(status))
        case Refused(_, status, detail):
            return replace(change, what=What.REFUSED, why=f"{status}: {detail}")
        case Unknown(detail):
            raise NotReadableError(f"{ref.display} could not be tried", reason=f"{detail}. {NOTHING_CHANGED}")


def _status(status: int, verb: str, ref: ObjectRef) -> str:
    if status == 403:
        scope = f"namespace {ref.namespace}" if ref.namespace else "cluster scope"
        return f"403, `{verb}` {ref.kubectl_resource} ({scope}) is forbidden"
    return f"the API server answers {status}"
