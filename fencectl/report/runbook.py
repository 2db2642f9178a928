"""
Runbooks as Markdown, with the values of one cluster in the place of `{context}`, `{holder}` and the like.

A placeholder stands in a command or in a code span, nowhere else. In a command it is quoted for the shell, in a
code span nothing of Markdown acts; what is not known, or what no shell could be handed, stays a placeholder, and a
note says why. Unfilled, a command reads well and does nothing: no cluster, holder or node is called `{so}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from fencectl.core.profiles import ProfileName
from fencectl.core.runbooks import PLACEHOLDERS, Match, Runbook, Situation, Values
from fencectl.report.escape import code_span, fence_for, inline, visible
from fencectl.report.shell import NotPrintableError, quote
from fencectl.report.style import PLAIN, Style, pad
from fencectl.report.words import count, listed

_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\n", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
_CONTEXT = re.compile(r" --context \{context\}")
# Options that are given once for each.
_EACH = re.compile(r" (--resume-kept|--node-verified) \{(fence|node)\}")
_OF_ONE_OBJECT = frozenset({"fence", "node", "resource", "name", "namespace", "hold", "holder"})
_NAME, _SIGN = 16, 39
_NOUNS = {Situation.HOLD: "hold", Situation.CLAIM: "claim", Situation.NOT_OURS: "object"}


class Block(msgspec.Struct, frozen=True):
    """A code block: its language, and its lines with their line feeds."""

    language: str
    text: str


class Cluster(msgspec.Struct, frozen=True):
    """
    Which cluster a runbook is filled in for.

    `label`: in sentences; None where no cluster was read. `context` for fencectl, `print_context` for kubectl:
    None where none is needed, as in a pod, or where none is known (`reached` tells). `why`: why it was not read.
    """

    label: str | None = None
    server: str | None = None
    context: str | None = None
    print_context: str | None = None
    kubeconfig: str | None = None
    profile: str = ProfileName.FENCECTL
    reached: bool = False
    complete: bool = False
    why: str | None = None

    @property
    def has_flags(self) -> bool:
        """Whether it is settled what `--context` has to be, be it nothing at all."""
        return self.reached or self.context is not None


class Filled(msgspec.Struct, frozen=True):
    """
    A runbook with what could be filled in.

    `parts`: its text, prose and blocks in turn. `missing`: the placeholders that stay, with why. `notes`: what was
    chosen where several matched.
    """

    parts: tuple[str | Block, ...]
    missing: Mapping[str, str] = MappingProxyType({})
    notes: tuple[str, ...] = ()

    @property
    def markdown(self) -> str:
        """The whole text, each block in a fence longer than any run of backticks in it."""
        return "".join(part if isinstance(part, str) else _fenced(part) for part in self.parts)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its commands, in their order."""
        return tuple(part for part in self.parts if isinstance(part, Block))


def _fenced(block: Block) -> str:
    fence = fence_for(block.text)
    return f"{fence}{block.language}\n{block.text}{fence}\n"


def parts_of(markdown: str) -> Iterator[str | Block]:
    """Prose and code blocks, in turn."""
    at = 0
    for match in _FENCE.finditer(markdown):
        yield markdown[at : match.start()]
        yield Block(match[2], match[3])
        at = match.end()
    yield markdown[at:]


def has_placeholders(markdown: str) -> bool:
    """Whether anything in it would be filled in."""
    return _PLACEHOLDER.search(markdown) is not None


def unfilled(markdown: str) -> Filled:
    """The text as it stands."""
    return Filled(tuple(parts_of(markdown)))


def fill(markdown: str, values: Values, cluster: Cluster) -> Filled:
    """Put the values in, and a note below the title on what was filled in and what was not."""
    filler = _Filler(values, cluster)
    parts = [
        Block(part.language, filler.lines(part.text)) if isinstance(part, Block) else _SPAN.sub(filler.span, part)
        for part in parts_of(markdown)
    ]
    notes = tuple(filler.notes())
    title, _, rest = str(parts[0]).partition("\n")
    told = "".join(f"> {line}\n" for line in (*_about(cluster, notes), *_stays(filler.missing)))
    return Filled((f"{title}\n\n{told}{rest}", *parts[1:]), filler.missing, notes)


def _about(cluster: Cluster, notes: Sequence[str]) -> Iterator[str]:
    if cluster.reached:
        whole = "" if cluster.complete else ", which could not be read whole"
        yield f"Filled in for {inline(cluster.label or '')}{whole}."
    elif cluster.label is not None:
        yield f"{inline(cluster.label)} was not read: {inline(cluster.why or 'no reason was given')}."
    else:
        yield f"No cluster was read: {inline(cluster.why or 'no reason was given')}."
    yield from notes


def _stays(missing: Mapping[str, str]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, why in missing.items():
        by_reason.setdefault(why, []).append(f"`{{{name}}}`")
    for why, names in by_reason.items():
        yield f"Not filled in: {listed(names, None)} ({why})."


class _Filler:
    """Fills one runbook in, and keeps what could not be."""

    def __init__(self, values: Values, cluster: Cluster) -> None:
        self._values = values
        self._cluster = cluster
        self._used: dict[str, None] = {}
        self.missing: dict[str, str] = {}

    def lines(self, text: str) -> str:
        """The lines of a block, each a command of its own."""
        return "".join(self._command(line) for line in text.splitlines(keepends=True))

    def span(self, match: re.Match[str]) -> str:
        """A code span: a command, or a name."""
        text = match[1]
        if not _PLACEHOLDER.search(text):
            return match[0]
        filled = self._command(text) if " " in text else _PLACEHOLDER.sub(lambda found: self._name(found[1]), text)
        return code_span(filled)

    def _command(self, line: str) -> str:
        if self._cluster.has_flags:
            line = _CONTEXT.sub(lambda _: self._flags(line), line)
        for name in self._values.without:
            line = line.replace(f" --{name} {{{name}}}", "")
        line = _EACH.sub(self._for_each, line)
        return _PLACEHOLDER.sub(lambda found: self._word(found[1], found[0]), line)

    def _for_each(self, match: re.Match[str]) -> str:
        """The option once for each that there is; left as it stands where there is none, or no word for one."""
        option, name = match[1], match[2]
        every = self._values.several.get(name, ())
        try:
            return "".join(f" {option} {quote(value)}" for value in every) or match[0]
        except NotPrintableError:
            return match[0]

    def _flags(self, line: str) -> str:
        cluster = self._cluster
        own = line.lstrip().startswith("fencectl ")
        context = cluster.context if own else cluster.print_context or cluster.context
        flags = {"--kubeconfig": cluster.kubeconfig, "--context": context}
        if own and cluster.profile != ProfileName.FENCECTL:
            flags["--profile"] = cluster.profile
        try:
            return "".join(f" {flag} {quote(value)}" for flag, value in flags.items() if value)
        except NotPrintableError as cannot:
            self.missing["context"] = str(cannot)
            return " --context {context}"

    def _word(self, name: str, placeholder: str) -> str:
        """A value as a word of a command, or the placeholder."""
        value = self._value(name)
        if value is None:
            return placeholder
        every = self._values.several.get(name, ()) if name == "fences" else ()
        try:
            if every:
                return " ".join(map(quote, every))
            # NB: inside of a word (`spec.nodeName={node}`) what is quoted is still one word.
            return quote(value)
        except NotPrintableError as cannot:
            self.missing[name] = str(cannot)
            return placeholder

    def _name(self, name: str) -> str:
        value = self._value(name)
        return f"{{{name}}}" if value is None else visible(value)

    def _value(self, name: str) -> str | None:
        self._used[name] = None
        if name == "context":
            if self._cluster.context is None:
                self.missing.setdefault(name, "no cluster is known")
            return self._cluster.context
        value = self._values.known.get(name)
        if value is None:
            self.missing.setdefault(name, self._values.missing.get(name, "no cluster was read"))
        return value

    def notes(self) -> Iterator[str]:
        """What was chosen where there was more than one."""
        if not self._used.keys() & _OF_ONE_OBJECT:
            return
        told = [name for name in ("holder", "hold", "node", "fence") if name in self._values.several]
        told = [name for name in told if name in self._used] or [
            name for name in told if name == "fence" and self._used.keys() & {"resource", "name"}
        ]
        for name in told:
            every = self._values.several[name]
            names = listed(map(code_span, every), 4)
            yield f"{count(len(every), name)} match: {names}; the first is filled in."


def exit_codes_of(book: Runbook) -> list[int]:
    """The exit codes that it is for, as numbers."""
    return [int(code) for code in book.codes]


def list_lines(books: Iterable[tuple[Runbook, Sequence[Match], int]], *, style: Style = PLAIN) -> list[str]:
    """A line for each runbook: its name, how it is recognised, and how many match now."""
    lines = []
    for book, matches, parts in books:
        now = matching_now(matches, parts)
        line = f"{style.bold(pad(book.name, _NAME))}  {pad(book.sign, _SIGN)}"
        lines.append(f"{line}  {now}".rstrip() if now else line.rstrip())
    return lines


def list_markdown(books: Iterable[tuple[Runbook, Sequence[Match], int]]) -> str:
    """The list as a table."""
    rows = ["| runbook | when | now |", "| --- | --- | --- |"]
    rows += [
        f"| `{book.name}` | {inline(book.sign, cell=True)} | {matching_now(matches, unread)} |"
        for book, matches, unread in books
    ]
    return "".join(f"{row}\n" for row in rows)


def matching_now(matches: Sequence[Match], unread: int = 0) -> str:
    """`5 fences match now`, `1 hold matches now`, or nothing. `unread`: so many parts could not be read."""
    if unread:
        return f"{count(unread, 'part')} of it now"
    if not matches:
        return ""
    kinds = {match.situation for match in matches}
    noun = _NOUNS.get(kinds.pop(), "fence") if len(kinds) == 1 else "fence"
    return f"{count(len(matches), noun)} {'matches' if len(matches) == 1 else 'match'} now"


def as_data(
    book: Runbook, matches: Sequence[Match], cluster: Cluster, filled: Filled | None = None
) -> dict[str, Any]:
    """One runbook as plain data; with `filled`, its text too."""
    found: dict[str, Any] = {
        "name": book.name,
        "sign": book.sign,
        "exitCodes": exit_codes_of(book),
        "situations": [str(one) for one in book.situations],
        "matches": [match.entry.object.display for match in matches] if cluster.reached else None,
    }
    if filled is not None:
        found |= {
            "commands": [block.text for block in filled.blocks],
            "notFilledIn": [{"placeholder": name, "why": why} for name, why in filled.missing.items()],
            "notes": list(filled.notes),
            "markdown": filled.markdown,
        }
    return found


def document(kind: str, cluster: Cluster, **more: Any) -> dict[str, Any]:
    """The whole answer, with what is known of the cluster."""
    return {
        "apiVersion": "fencectl.dev/v1",
        "kind": kind,
        "context": cluster.context,
        "server": cluster.server,
        "profile": cluster.profile,
        "read": cluster.reached,
        "complete": cluster.complete if cluster.reached else None,
        "why": cluster.why,
        **more,
    }
