"""
Manifests: what is to be applied, checked whole before anything is read or changed.

Each knows the file and line that it comes from, so that whatever is wrong with it is said where it is. Pure: takes
texts, reads no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fencectl.core.manifest_text import ManifestError, read_documents
from fencectl.core.refs import Raw, dig

_API_VERSION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]+", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)
_NAME = re.compile(r"[!-$&-.0-~]+", re.ASCII)  # printable, without blank, `/` and `%`
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_KUSTOMIZE = "kustomize.config.k8s.io/"
_SHOWN_ERRORS = 4


class Source(msgspec.Struct, frozen=True):
    """One text to read manifests from. `shown`: how it is called: a path, `-`, or the command that printed it."""

    shown: str
    text: bytes = msgspec.field(default=b"")


class Manifest(msgspec.Struct, frozen=True):
    """
    One object as it is written down.

    `namespace`: as written, None where it says none. `where`: file and line.
    """

    raw: Raw
    api_version: str
    kind: str
    namespace: str | None
    name: str
    where: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def display(self) -> str:
        """`kind/namespace/name`, as far as it says so."""
        parts = (self.kind.lower(), self.namespace, self.name)
        return "/".join(part for part in parts if part)


def read_manifests(sources: Iterable[Source]) -> tuple[Manifest, ...]:
    """
    Read every object of every source, lists taken apart, in the order written.

    Raises ManifestError for the first that cannot be used; the others are named beside it.
    """
    found: list[Manifest] = []
    failed: list[ManifestError] = []
    for source in sources:
        try:
            for document in read_documents(source.text, shown=source.shown):
                where = f"{source.shown}:{document.line}"
                for value, line in _objects(document.value, document.line, document.item_lines, where):
                    try:
                        found.append(_manifest(value, f"{source.shown}:{line}"))
                    except ManifestError as bad:
                        failed.append(bad)
        except ManifestError as bad:
            failed.append(bad)
    if failed:
        raise _all_of(failed)
    return tuple(found)


def _all_of(failed: Sequence[ManifestError]) -> ManifestError:
    first, *others = failed
    if others:
        named = [f"{bad.where}: {bad.problem}" for bad in others[:_SHOWN_ERRORS]]
        more = len(others) - len(named)
        first.reason = "also " + "; ".join([*named, *([f"{more} more"] if more else [])])
    return first


def _objects(
    value: Any, line: int, item_lines: tuple[int, ...], where: str, *, depth: int = 0
) -> Iterator[tuple[Any, int]]:
    """Yield an object, or those of a list; a typed list gives its items the kind that they leave out."""
    kind, items = dig(value, "kind"), dig(value, "items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(value, Mapping) and "items" in value):
        yield value, line
        return
    if not isinstance(items, list) or depth > 3:
        if items is None:
            return
        raise ManifestError(where, f"`items` of a {kind} must be a list")
    api_version = value.get("apiVersion")
    for number, item in enumerate(items):
        at = item_lines[number] if number < len(item_lines) else line
        if kind != "List" and isinstance(item, Mapping) and "kind" not in item:
            item = {"apiVersion": api_version, "kind": kind.removesuffix("List"), **item}  # noqa: PLW2901
        yield from _objects(item, at, (), where, depth=depth + 1)


def _manifest(value: Any, where: str) -> Manifest:
    if not isinstance(value, Mapping):
        raise ManifestError(where, "not an object: a manifest has `apiVersion`, `kind` and `metadata`")
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not _API_VERSION.fullmatch(api_version):
        raise ManifestError(where, "no `apiVersion`" if not api_version else "`apiVersion` is none")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ManifestError(where, "no `kind`" if not kind else "`kind` is none")
    if api_version.startswith(_KUSTOMIZE):
        raise ManifestError(where, f"a {kind} is built, not applied", hint="`-k DIR` builds a kustomization")
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        raise ManifestError(where, f"a {kind} without `metadata`")
    name = metadata.get("name")
    if not name and metadata.get("generateName"):
        raise ManifestError(where, f"a {kind} with `generateName` cannot be applied, it needs a `name`")
    if not isinstance(name, str) or not name:
        missing = f"a {kind} without `metadata.name`"
        raise ManifestError(where, missing if name in (None, "") else f"`metadata.name` of a {kind} must be text")
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ManifestError(where, f"`metadata.name` of a {kind} is no name")
    namespace = metadata.get("namespace") or None
    if namespace is not None and (not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace)):
        raise ManifestError(where, f"`metadata.namespace` of {kind.lower()}/{name} is no namespace")
    for key in ("labels", "annotations"):
        _check_texts(metadata.get(key), key, f"{kind.lower()}/{name}", where)
    if metadata.get("managedFields"):
        raise ManifestError(
            where,
            f"{kind.lower()}/{name} carries `metadata.managedFields`: it was read off a cluster",
            hint="`kubectl get -o yaml --show-managed-fields=false` leaves them out",
        )
    return Manifest(value, api_version, kind, namespace, name, where)


def _check_texts(value: Any, key: str, of: str, where: str) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ManifestError(where, f"`metadata.{key}` of {of} must be a mapping")
    for name, text in value.items():
        if not isinstance(text, str):
            raise ManifestError(
                where, f"`metadata.{key}` of {of}: the value of `{name}` is no text", hint="quote it"
            )


def refuse_twins(manifests: Iterable[Manifest], namespace_of: Callable[[Manifest], str | None]) -> None:
    """
    Refuse one object that is written down twice; `namespace_of` says where each one goes.

    Raises ManifestError with both places.
    """
    seen: dict[tuple[str, str, str | None, str], Manifest] = {}
    for one in manifests:
        key = (one.group, one.kind, namespace_of(one), one.name)
        if (first := seen.setdefault(key, one)) is not one:
            raise ManifestError(
                one.where, f"{one.display} is there twice, first at {first.where}", hint="keep one of them"
            )
