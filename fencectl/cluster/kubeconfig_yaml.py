"""
YAML of a kubeconfig, read as Go's parser reads it, with errors that name file and line and never the content.

What differs from PyYAML: dates and base-60 numbers stay text, `12e5` is a number and `y` a boolean (so that an
unquoted token of that shape is refused exactly where kubectl refuses it), unknown tags are ignored, and a file
ends with its first document.
"""

from __future__ import annotations

import binascii
import functools
import re
from typing import Any

from fencectl.core.errors import UsageError

_VIEW_HINT = "`kubectl config view` reads the same file and shows the same error"

_GO_INT = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$")
_GO_BOOL = re.compile(r"^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$")
_GO_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)

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


def parse_text(text: bytes, *, shown: str) -> Any:
    """Return the first document of a file as plain values; `shown` is how an error calls the file."""
    stripped = text.lstrip()
    if stripped.startswith(b"{"):
        # NB: tabs may indent JSON, but not what PyYAML takes for YAML in flow style.
        import json

        try:
            return json.loads(stripped)
        except ValueError:
            pass
    import yaml

    try:
        loader = _loader_class()(text)
        try:
            return loader.get_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _broken(error, text, shown=shown) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        raise UsageError(f"{shown}: not valid YAML", hint=_VIEW_HINT) from None


@functools.cache
def _loader_class() -> Any:
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
        "KubeconfigLoader",
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


def _broken(error: Any, text: bytes, *, shown: str) -> UsageError:
    mark = error.problem_mark
    problem = str(error.problem or "")
    why = "not valid YAML"
    if mark is None:
        return UsageError(f"{shown}: {why}", hint=_VIEW_HINT)
    lines = text.decode("utf-8", errors="replace").splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        why += " (found a tab)"
    elif "undefined alias" in problem:
        # NB: the library names the alias, which may be a secret that happens to begin with `*`.
        why += " (found an alias that is not defined)"
    elif problem in _HARMLESS_PROBLEMS:
        why += f" ({problem})"
    return UsageError(f"{shown} line {mark.line + 1}: {why}", hint=_VIEW_HINT)
