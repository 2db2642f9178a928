"""
Plain values of YAML as Go's parser reads them, so that a file means here what it means to kubectl.

What differs from PyYAML: dates and base-60 numbers stay text, `12e5` is a number and `y` a boolean, unknown tags
are ignored. Nothing but plain values is ever made of a document.
"""

from __future__ import annotations

import binascii
import functools
import re
from typing import Any

# Texts of the parser that quote nothing from the file; of the others not a word is passed on.
_HARMLESS_PROBLEMS = frozenset(
    {
        "mapping values are not allowed in this context",
        "mapping values are not allowed here",
        "could not find expected ':'",
        "did not find expected key",
        "did not find expected node content",
        "did not find expected ',' or ']'",
        "did not find expected ',' or '}'",
        "did not find expected '-' indicator",
        "block sequence entries are not allowed in this context",
        "found unexpected end of stream",
        "control characters are not allowed",
    }
)

_GO_INT = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$")
_GO_BOOL = re.compile(r"^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
_GO_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


@functools.cache
def loader_class() -> Any:
    """The loader: the C parser where libyaml is there, with Go's idea of plain values."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    replaced = {f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "value", "int", "float", "bool")}
    resolvers = {
        first: [(tag, regexp) for tag, regexp in entries if tag not in replaced]
        for first, entries in base.yaml_implicit_resolvers.items()
    }
    for first in "-+.0123456789":
        resolvers.setdefault(first, []).extend(
            [("tag:yaml.org,2002:int", _GO_INT), ("tag:yaml.org,2002:float", _GO_FLOAT)]
        )
    for first in "yYnNtTfFoO":
        resolvers.setdefault(first, []).append(("tag:yaml.org,2002:bool", _GO_BOOL))
    constructors = {
        **base.yaml_constructors,
        "tag:yaml.org,2002:int": _number,
        "tag:yaml.org,2002:float": _number,
        "tag:yaml.org,2002:bool": lambda _, node: node.value.lower() in ("y", "yes", "true", "on"),
        "tag:yaml.org,2002:binary": _binary,
        None: _untagged,
    }
    return type(
        "GoLoader",
        (base,),
        {"yaml_implicit_resolvers": resolvers, "yaml_constructors": constructors},
    )


def _number(_: Any, node: Any) -> float:
    text = str(node.value).replace("_", "")
    for read in (lambda: int(text, 0), lambda: int(text, 8), lambda: float(text)):
        try:
            return read()
        except ValueError:
            continue
    return float("nan")


def _binary(_: Any, node: Any) -> str:
    return binascii.a2b_base64(node.value).decode("utf-8", errors="replace")


def _untagged(loader: Any, node: Any) -> Any:
    """Go's parser ignores tags that it does not know."""
    kinds = {
        "mapping": "tag:yaml.org,2002:map",
        "sequence": "tag:yaml.org,2002:seq",
        "scalar": "tag:yaml.org,2002:str",
    }
    return loader.yaml_constructors[kinds[node.id]](loader, node)


def explain(error: Any, text: bytes) -> tuple[int | None, str]:
    """
    The line of a parser's error (None: it does not say), and why, without a word of the text.

    NB: a file may hold secrets, and a parser quotes what it stumbles over.
    """
    mark = error.problem_mark
    problem = str(error.problem or "")
    why = "not valid YAML"
    if mark is None:
        return None, why
    lines = text.decode("utf-8", errors="replace").splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        why += " (found a tab)"
    elif "undefined alias" in problem:
        # NB: the library names the alias, which may be a secret that happens to begin with `*`.
        why += " (found an alias that is not defined)"
    elif problem in _HARMLESS_PROBLEMS:
        why += f" ({problem})"
    return mark.line + 1, why
