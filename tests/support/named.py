"""Tests named in a table, and whether there are such tests: by their source, without running or importing any."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def tests_in(module: str) -> frozenset[str]:
    """Names of the tests that a module defines at its top level; none where it does not exist."""
    path = TESTS / module
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node.name for node in ast.parse(path.read_text()).body if isinstance(node, functions))
    return frozenset(name for name in found if name.startswith("test_"))


def missing(named: Iterable[str]) -> list[str]:
    """Which of these (`folder/module.py::test_name`, below `tests/`) do not exist."""
    parted = ((one, *one.partition("::")) for one in named)
    return [one for one, module, _, name in parted if name not in tests_in(module)]
