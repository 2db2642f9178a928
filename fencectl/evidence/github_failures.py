"""What it is called when GitHub gave no usable answer: one line for people, with nothing of the request in it."""

from __future__ import annotations


class UnansweredError(Exception):
    """
    No answer that says anything about a holder.

    `words`: one line for people, which may quote a few words of GitHub's; they are cut, and escaped when shown.
    `status`: HTTP's, where there was an answer at all.
    """

    def __init__(self, words: str, *, status: int | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.status = status


def cut(text: str, limit: int = 80) -> str:
    """Somebody else's text, cut to a length that cannot bury a line."""
    return text if len(text) <= limit else f"{text[:limit]}…"
