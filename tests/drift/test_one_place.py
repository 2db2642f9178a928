"""Aspects: one module spells patches · one module writes · modules stay small · nothing printed past the renderers."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "fencectl"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax of a module, parsed once for all tests."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def texts(path: Path) -> list[str]:
    """Every string of a module that is no docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    prose = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


def modules_with(pattern: str) -> set[str]:
    return {name(path) for path in MODULES if any(re.search(pattern, text) for text in texts(path))}


def makes_operations(path: Path) -> bool:
    """Whether a module writes `{"op": …}`, `dict(op=…)`, or the same as text. Reading `operation["op"]` is fine."""
    for node in nodes(path):
        if isinstance(node, ast.Dict) and any(
            isinstance(key, ast.Constant) and key.value == "op" for key in node.keys
        ):
            return True
        if isinstance(node, ast.Call) and any(keyword.arg == "op" for keyword in node.keywords):
            return True
    return any(re.search(r'"op\\*"\s*:', text) for text in texts(path))


def test_one_module_makes_patch_operations() -> None:
    """Executed is printed, because nothing else can make a patch; reports and the sandbox only read them."""
    assert {name(path) for path in MODULES if makes_operations(path)} == {"core/patches.py"}


def test_content_type_of_patches_stands_in_one_place_and_in_the_sandbox() -> None:
    """A patch that went out under another type would be another patch."""
    spells = {module for module in modules_with("json-patch") if not module.startswith("sandbox/")}
    assert spells == {"core/patches.py"}


def test_one_module_of_those_that_reach_a_cluster_writes() -> None:
    """No other so much as names a writing verb of HTTP; the sandbox, which is a server, answers them."""
    writing = modules_with(r"^(POST|PUT|PATCH|DELETE)$")
    writing = {module for module in writing if not module.startswith("sandbox/")}
    assert writing == {"cluster/write.py"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_module_is_small_and_begins_with_what_it_is(path: Path) -> None:
    """Whoever opens it reads one sentence and sees the end of it."""
    text = path.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 420  # about 400: the limit is for the reader, not for the counter


def test_nothing_prints_past_the_command_line_and_the_renderers() -> None:
    """A `print` in a reader would end up in somebody's JSON."""
    printing = {
        name(path)
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing <= {module for module in printing if module.startswith(("cli", "report/"))}


def test_nothing_asks_a_shell() -> None:
    """Printed commands are quoted for one; the program itself never uses one."""
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.keyword) and node.arg == "shell" and isinstance(node.value, ast.Constant):
                assert node.value.value is not True, name(path)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in {"system", "popen"}, name(path)
