"""
YAML of a kubeconfig, read as Go's parser reads it, with errors that name file and line and never the content.

Two things differ from PyYAML's defaults: dates and base-60 numbers stay text, and numbers such as `12e5` are
numbers (so an unquoted token of that shape is refused here exactly where kubectl refuses it).
"""

from __future__ import annotations

import functools
import re
from typing import Any

from fencectl.core.errors import UsageError

_VIEW_HINT = "`kubectl config view` reads the same file and shows the same error"

_GO_INT = re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*))$")
_GO_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)

# Beginnings of libyaml's texts that quote nothing from the file; the rest is only called "not valid YAML".
_HARMLESS_PROBLEMS = (
    "mapping values are not allowed",
    "could not find expected ':'",
    "did not find expected",
    "block sequence entries are not allowed",
    "found unexpected end of stream",
    "found unexpected document indicator",
    "control characters are not allowed",
    "found undefined alias",
    "did not find the expected",
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
    unwanted = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
    numbers = {"tag:yaml.org,2002:int": _GO_INT, "tag:yaml.org,2002:float": _GO_FLOAT}
    resolvers = {
        first: [(tag, numbers.get(tag, regexp)) for tag, regexp in entries if tag not in unwanted]
        for first, entries in base.yaml_implicit_resolvers.items()
    }
    for digit in "+-.0123456789":
        tags = {tag for tag, _ in resolvers.get(digit, ())}
        resolvers.setdefault(digit, []).extend(item for item in numbers.items() if item[0] not in tags)
    return type("KubeconfigLoader", (base,), {"yaml_implicit_resolvers": resolvers})


def _broken(error: Any, text: bytes, *, shown: str) -> UsageError:
    mark = error.problem_mark
    problem = str(error.problem or "")
    why = "not valid YAML"
    if mark is None:
        return UsageError(f"{shown}: {why}", hint=_VIEW_HINT)
    lines = text.decode("utf-8", errors="replace").splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "cannot start any token" in problem and line[mark.column : mark.column + 1] == "\t":
        why += " (found a tab)"
    elif problem.startswith(_HARMLESS_PROBLEMS):
        # NB: libyaml's texts may end in the offending word, which can be a secret: the first clause is enough.
        why += f" ({problem.partition(chr(39))[0].strip() if 'alias' in problem else problem})"
    return UsageError(f"{shown} line {mark.line + 1}: {why}", hint=_VIEW_HINT)
