"""`deploy -f PATH…` and `-k DIR`: from files to a plan of objects, checked whole before anything is read."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import CONFIGMAPS, record_of
from fencectl.cluster.read import Reads
from fencectl.cluster.transport import Transport
from fencectl.commands.options_acting import DeployOptions
from fencectl.core.apply_plan import ApplyPlan, Change, SetPlan, What
from fencectl.core.applyset import Contents, contents_of, default_set, label_for, read_contents
from fencectl.core.errors import UsageError
from fencectl.core.gojson import encode
from fencectl.core.manifest_text import NOTHING, ManifestError
from fencectl.core.manifests import Manifest, read_manifests, refuse_twins
from fencectl.core.refs import ObjectRef
from fencectl.run.preview import Previewer, Resolved, resolve
from fencectl.run.pruning import key_of, list_members, why_not_prune
from fencectl.run.rendering import STDIN, is_kustomization, read_sources
from fencectl.run.story import read

# A look at the kinds that a cluster has.
DISCOVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Rendered:
    """
    What was read, and how it was named.

    `namespace`: where objects go that name none. `digest`: of all objects in order, SHA-256 in hexadecimal digits.
    """

    manifests: tuple[Manifest, ...]
    arguments: tuple[str, ...]
    namespace: str
    digest: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """All manifests of a deploy: those of step 8, and the canary's; each None where there are none."""

    payload: Rendered | None = None
    canary: Rendered | None = None

    @property
    def digest(self) -> str | None:
        """What identifies the state that is asked for, where that is manifests."""
        return self.payload.digest if self.payload is not None else None


def is_given(options: DeployOptions) -> bool:
    """Whether manifests are the payload."""
    return bool(options.files or options.kustomization)


def check_form(options: DeployOptions) -> None:
    """Manifests, a revision for Flux, or a command: exactly one of them."""
    forms = [
        *(["manifests"] if is_given(options) else []),
        *(["`--flux`"] if options.flux is not None else []),
        *([f"the command `{options.command[0]}`"] if options.command else []),
    ]
    if len(forms) > 1:
        raise UsageError(
            f"deploy takes manifests, `--flux` or a command, and got {' and '.join(forms)}",
            hint=f"each file has its own `-f`, a folder takes all of its files. {NOTHING}",
        )
    if not forms:
        raise UsageError(
            "deploy needs manifests, `--flux` or a command",
            hint=f"fencectl deploy -f PATH, or -- COMMAND…. {NOTHING}",
        )
    if options.revision is not None and options.flux is None:
        raise UsageError("`--revision` goes with `--flux`", hint=f"leave it out. {NOTHING}")
    for flag, given in (
        ("--prune", options.prune),
        ("--diff", options.diff),
        ("--force-conflicts", options.force_conflicts),
        ("--namespace", options.namespace),
        ("--applyset", options.applyset),
    ):
        is_about = is_given(options) or (options.canary is not None and flag not in ("--prune", "--applyset"))
        if given and not is_about:
            raise UsageError(f"`{flag}` is about manifests, and there are none", hint=f"leave it out. {NOTHING}")
    if options.allow_partial_prune and not options.prune:
        raise UsageError("`--allow-partial-prune` goes with `--prune`", hint=f"leave it out. {NOTHING}")


def render_all(
    options: DeployOptions, canaries: Sequence[str], *, namespaces: Sequence[str], environ: Mapping[str, str]
) -> tuple[Inputs, ...]:
    """
    Read and check every manifest (step 0), once for all targets. `namespaces`: of each target's context.

    `canaries`: the path of each target's canary, empty where it has none. Raises UsageError; no cluster was read
    then.
    """
    payloads: Sequence[Rendered | None] = [None] * len(namespaces)
    if is_given(options):
        payloads = render(options, namespaces=namespaces, environ=environ)
    read = {path: read_canary(path, environ) for path in dict.fromkeys(canaries) if path}
    first = [
        _rendered(read[path], ("--canary", path), options.namespace or own) if path else None
        for path, own in zip(canaries, namespaces, strict=True)
    ]
    return tuple(Inputs(payload, canary) for payload, canary in zip(payloads, first, strict=True))


def render(
    options: DeployOptions, *, namespaces: Sequence[str], environ: Mapping[str, str]
) -> tuple[Rendered, ...]:
    """
    Read and check every manifest (step 0), once for all targets. `namespaces`: of each target's context.

    Raises UsageError; no cluster was read then.
    """
    sources = read_sources(options.files, options.kustomization, stdin=_read_stdin, environ=environ)
    arguments = [argument for path in options.files for argument in ("-f", path)]
    if options.kustomization is not None:
        arguments += ["-k", options.kustomization]
    manifests = read_manifests(sources)
    if not manifests and not options.prune:
        raise UsageError("nothing to deploy: no object was rendered", hint=NOTHING)
    return tuple(_rendered(manifests, tuple(arguments), options.namespace or own) for own in namespaces)


def read_canary(path: str, environ: Mapping[str, str]) -> tuple[Manifest, ...]:
    """Read and check the canary's manifests (step 0): a file, a folder of them, or one that kustomize builds."""
    if path == STDIN:
        raise UsageError("`--canary` takes a file or a folder, not stdin", hint=NOTHING)
    paths, kustomization = ((), path) if is_kustomization(path) else ((path,), None)
    sources = read_sources(paths, kustomization, stdin=_read_stdin, environ=environ, flag="--canary")
    manifests = read_manifests(sources)
    if not manifests:
        raise UsageError(f"no object was rendered from the canary {path}", hint=NOTHING)
    return manifests


def _rendered(manifests: tuple[Manifest, ...], arguments: tuple[str, ...], where: str) -> Rendered:
    # NB: cluster-scoped objects have no namespace; that is known, and looked at again, once the kinds are.
    refuse_twins(manifests, lambda one: one.namespace or where)
    digest = hashlib.sha256(encode([one.raw for one in manifests]).encode()).hexdigest()
    return Rendered(manifests, arguments, where, digest)


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("`-f -` reads stdin, and it is closed", hint=NOTHING)
    return sys.stdin.buffer.read()


@dataclass(frozen=True, slots=True)
class Found:
    """
    The plans of step 8 and of the canary, each None where there is nothing to apply.

    `withheld`: why the prune is withheld already now (None: it is not, or none was asked for).
    """

    plan: ApplyPlan | None
    canary: ApplyPlan | None
    withheld: str | None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What would become of every object, in order."""
        return (*(self.canary.changes if self.canary else ()), *(self.plan.changes if self.plan else ()))


@dataclass(frozen=True, slots=True)
class Planner:
    """Reads what the manifests are about and tries every one, before the first write."""

    options: DeployOptions
    lease: tuple[str, str]
    door: Transport
    clock: Clock
    stop: threading.Event

    def plan(
        self, rendered: Rendered | None, fenced: Collection[ObjectRef], *, canary: Rendered | None = None
    ) -> Found:
        """
        Plan to apply what was rendered, the canary before the rest. `fenced`: what a fence of this run will hold.

        Raises UsageError, NotReadableError, ApplySetError, StoppedError.
        """
        resources = ApiResources(Reads(self.door, clock=self.clock, deadline_s=DISCOVERY_S))
        first = self._resolve(canary, resources)
        rest = self._resolve(rendered, resources, before=canary)
        both = (*first, *rest)
        # NB: the canary is of the set too, or it would be out of sight, and of the next prune.
        applyset = self._applyset([one.ref for one in both])
        self._refuse_own([(one.manifest, one.ref) for one in both])
        paths = {ref.path for ref in fenced}
        canary_plan = self._preview(canary, first, paths, applyset)
        plan = self._preview(rendered, rest, paths, applyset, before=canary)
        options = self.options
        if plan is None:
            return Found(None, canary_plan, None)
        also = tuple(one.ref for one in first)
        plan = replace(plan, prune=options.prune, partial=options.allow_partial_prune, canary=also)
        if not options.prune or applyset is None:
            return Found(plan, canary_plan, None)
        plan, withheld = self._with_prune(plan, applyset)
        return Found(plan, canary_plan, withheld)

    def _resolve(
        self, rendered: Rendered | None, resources: ApiResources, *, before: Rendered | None = None
    ) -> tuple[Resolved, ...]:
        if rendered is None:
            return ()
        return resolve(
            rendered.manifests,
            resources,
            namespace=rendered.namespace,
            enforced=self.options.namespace is not None,
            before=before.manifests if before is not None else (),
        )

    def _preview(
        self,
        rendered: Rendered | None,
        resolved: Sequence[Resolved],
        fenced: Collection[str],
        applyset: SetPlan | None,
        *,
        before: Rendered | None = None,
    ) -> ApplyPlan | None:
        if rendered is None:
            return None
        force = self.options.force_conflicts
        found = Previewer(self.door, self.clock, stop=self.stop, force=force).preview(
            resolved,
            fenced=lambda ref: ref.path in fenced,
            labels=label_for(applyset.id) if applyset is not None else {},
            before=before.manifests if before is not None else (),
        )
        return ApplyPlan(found.objects, rendered.arguments, found.changes, force=force, applyset=applyset)

    @property
    def _set_name(self) -> str:
        return self.options.applyset or default_set(self.lease[1])

    def _applyset(self, refs: Sequence[ObjectRef]) -> SetPlan | None:
        """The set, once one is kept: a deploy without `--prune` must not take its members out of it."""
        namespace, name = self.lease[0], self._set_name
        seen = read(
            self.door, ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
        )
        if seen is None and not self.options.prune:
            return None
        before = Contents() if seen is None else read_contents(seen.raw, namespace=namespace, name=name)
        rendered = contents_of((ref.group, ref.kind, ref.namespace) for ref in refs)
        if not self.options.prune:
            rendered = before | rendered
        return SetPlan(namespace, name, before, rendered)

    def _refuse_own(self, objects: Sequence[tuple[Manifest, ObjectRef]]) -> None:
        """The lease, its record and the parent of the set are what this deploy stands on."""
        namespace = self.lease[0]
        own = {
            ("Lease", *self.lease),
            ("ConfigMap", *record_of(self.lease)),
            ("ConfigMap", namespace, self._set_name),
        }
        for manifest, ref in objects:
            if (ref.kind, ref.namespace, ref.name) in own:
                raise ManifestError(manifest.where, f"{ref.display} is what this deploy itself stands on")

    def _with_prune(self, plan: ApplyPlan, applyset: SetPlan) -> tuple[ApplyPlan, str | None]:
        """Name what would go; and why it is withheld, if it is."""
        members = list_members(self.door, self.clock, applyset)
        rendered = {key_of(ref) for ref in plan.rendered}
        why = why_not_prune(members, rendered)
        stale = [ref for ref in members.found if key_of(ref) not in rendered]
        changes = tuple(
            Change(ref, What.PRUNE, why=why or "") for ref in sorted(stale, key=lambda ref: ref.display)
        )
        return replace(plan, changes=(*plan.changes, *changes)), None if plan.partial else why
