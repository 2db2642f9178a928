"""
Marks: the two annotations that say who holds a fence and what was there before.

A mark and the change it stands for are written in one guarded patch, so a mark without its journal, or one that
was copied onto another object, is no work of a run that was killed: it is reported and never released by rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.core.journal import BadJournal, Journal, Phase, parse_journal
from fencectl.core.profiles import HOLDER, JOURNAL
from fencectl.core.refs import Seen, annotations_of


@dataclass(frozen=True, slots=True)
class Mark:
    """
    The mark on one object.

    `holder_text` and `journal_text` as they stand on it (None: absent). `problem`: why the mark cannot be
    used, None for a sound one, which then has a `journal`.
    """

    holder_text: str | None
    journal_text: str | None
    journal: Journal | None
    problem: str | None

    @property
    def owner(self) -> str | None:
        """The holder, where the mark names one at all."""
        return self.holder_text if self.holder_text and self.holder_text.strip() else None

    @property
    def kept(self) -> bool:
        """Whether the fence was left on purpose after a rollback."""
        return self.problem is None and self.journal is not None and self.journal.phase is Phase.KEPT


def read_mark(seen: Seen) -> Mark | None:
    """Read the mark of an object; None where it carries neither annotation."""
    annotations = annotations_of(seen.raw)
    holder_text, journal_text = annotations.get(HOLDER), annotations.get(JOURNAL)
    if holder_text is None and journal_text is None:
        return None
    # NB: the server stores nothing but text here; another type would be a broken reader, not a broken mark.
    holder_text = None if holder_text is None else str(holder_text)
    journal_text = None if journal_text is None else str(journal_text)
    parsed = None if journal_text is None else parse_journal(journal_text)
    return Mark(
        holder_text,
        journal_text,
        parsed if isinstance(parsed, Journal) else None,
        _problem(seen, holder_text, parsed),
    )


def _problem(seen: Seen, holder_text: str | None, parsed: Journal | BadJournal | None) -> str | None:
    if holder_text is None:
        return "it has a journal and no holder: no run owns it"
    if not holder_text.strip():
        return f"its holder mark is {'blank' if holder_text else 'empty'}: no run owns it"
    if parsed is None:
        return "its journal is missing: what was there before is not recorded"
    if isinstance(parsed, BadJournal):
        return parsed.why
    if parsed.holder != holder_text:
        return "its mark and its journal name different holders"
    if not seen.ref.uid:
        return "it has no uid, so that no patch of it could be guarded"
    if parsed.uid != seen.ref.uid:
        return "its journal was written for another object: the mark was copied, or the object was restored"
    return None
