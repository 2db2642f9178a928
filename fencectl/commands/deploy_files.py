"""`deploy -f PATH…` and `-k DIR`: from files to a plan of objects, checked whole before anything is read."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import CONFIGMAPS, record_of
from fencectl.cluster.read import Reads
from fencectl.cluster.transport import Transport
from fencectl.commands.options_acting import DeployOptions
from fencectl.core.apply_plan import ApplyPlan, Change, SetPlan, What
from fencectl.core.applyset import Contents, contents_of, label_for, read_contents
from fencectl.core.errors import UsageError
from fencectl.core.gojson import encode
from fencectl.core.manifest_text import NOTHING, ManifestError
from fencectl.core.manifests import Manifest, read_manifests, refuse_twins
from fencectl.core.refs import ObjectRef
from fencectl.run.preview import Previewer, resolve
from fencectl.run.pruning import key_of, list_members, why_not_prune
from fencectl.run.rendering import read_sources
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
        if given and not is_given(options):
            raise UsageError(f"`{flag}` is about manifests, and there are none", hint=f"leave it out. {NOTHING}")
    if options.allow_partial_prune and not options.prune:
        raise UsageError("`--allow-partial-prune` goes with `--prune`", hint=f"leave it out. {NOTHING}")


def render(
    options: DeployOptions, *, namespaces: Sequence[str], environ: Mapping[str, str]
) -> tuple[Rendered, ...]:
    """
    Read and check every manifest (step 0), once for all targets. `namespaces`: of each target's context.

    Raises UsageError; no cluster was read then.
    """
    sources = read_sources(options.files, options.kustomization, stdin=_read_stdin, environ=environ)
    manifests = read_manifests(sources)
    arguments = [argument for path in options.files for argument in ("-f", path)]
    if options.kustomization is not None:
        arguments += ["-k", options.kustomization]
    if not manifests and not options.prune:
        raise UsageError("nothing to deploy: no object was rendered", hint=NOTHING)
    digest = hashlib.sha256(encode([one.raw for one in manifests]).encode()).hexdigest()
    found = [Rendered(manifests, tuple(arguments), options.namespace or own, digest) for own in namespaces]
    for rendered in found:
        # NB: cluster-scoped objects have no namespace; that is known, and looked at again, once the kinds are.
        refuse_twins(manifests, partial(_place, rendered.namespace))
    return tuple(found)


def _place(namespace: str, manifest: Manifest) -> str:
    return manifest.namespace or namespace


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("`-f -` reads stdin, and it is closed", hint=NOTHING)
    return sys.stdin.buffer.read()


@dataclass(frozen=True, slots=True)
class Found:
    """The plan, and why its prune is withheld already now (None: it is not, or none was asked for)."""

    plan: ApplyPlan
    withheld: str | None


@dataclass(frozen=True, slots=True)
class Planner:
    """Reads what the manifests are about and tries every one, before the first write."""

    options: DeployOptions
    lease: tuple[str, str]
    door: Transport
    clock: Clock
    stop: threading.Event

    def plan(self, rendered: Rendered, fenced: Collection[ObjectRef]) -> Found:
        """
        Plan to apply what was rendered. `fenced`: what will be under a fence of this run.

        Raises UsageError, NotReadableError, ApplySetError, StoppedError.
        """
        options = self.options
        resources = ApiResources(Reads(self.door, clock=self.clock, deadline_s=DISCOVERY_S))
        resolved = resolve(
            rendered.manifests, resources, namespace=rendered.namespace, enforced=options.namespace is not None
        )
        applyset = self._applyset([one.ref for one in resolved])
        self._refuse_own([(one.manifest, one.ref) for one in resolved])
        paths = {ref.path for ref in fenced}
        previewer = Previewer(self.door, self.clock, stop=self.stop, force=options.force_conflicts)
        found = previewer.preview(
            resolved,
            fenced=lambda ref: ref.path in paths,
            labels=label_for(applyset.id) if applyset is not None else {},
        )
        plan = ApplyPlan(
            found.objects,
            rendered.arguments,
            found.changes,
            force=options.force_conflicts,
            applyset=applyset,
            prune=options.prune,
            partial=options.allow_partial_prune,
        )
        if not options.prune or applyset is None:
            return Found(plan, None)
        return self._with_prune(plan, applyset)

    @property
    def _set_name(self) -> str:
        return self.options.applyset or f"{self.lease[1]}-applyset"

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

    def _with_prune(self, plan: ApplyPlan, applyset: SetPlan) -> Found:
        members = list_members(self.door, self.clock, applyset)
        rendered = {key_of(one.ref) for one in plan.objects}
        why = why_not_prune(members, rendered)
        stale = [ref for ref in members.found if key_of(ref) not in rendered]
        changes = tuple(
            Change(ref, What.PRUNE, why=why or "") for ref in sorted(stale, key=lambda ref: ref.display)
        )
        return Found(replace(plan, changes=(*plan.changes, *changes)), None if plan.partial else why)
