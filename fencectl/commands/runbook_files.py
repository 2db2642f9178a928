"""Where the texts of the runbooks are: beside the package when it is installed, at the top of a checkout."""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  pathlib costs start-up
_FOLDERS = (os.path.join(_HERE, "runbooks"), os.path.join(os.path.dirname(_HERE), "runbooks"))  # noqa: PTH118, PTH120


def names() -> list[str]:
    """The names of all runbooks, sorted. For completion: it reads a folder and imports nothing."""
    return sorted(name[:-3] for name in os.listdir(_folder()) if name.endswith(".md"))  # noqa: PTH208


def text_of(name: str) -> str:
    """The Markdown of one; raises KeyError where there is none of that name."""
    if name not in names():
        raise KeyError(name)
    with open(os.path.join(_folder(), f"{name}.md"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        return file.read()


def _folder() -> str:
    return next((folder for folder in _FOLDERS if os.path.isdir(folder)), _FOLDERS[0])  # noqa: PTH112
