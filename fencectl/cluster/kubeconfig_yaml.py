"""
YAML of a kubeconfig, read as Go's parser reads it, with errors that name file and line and never the content.

What differs from PyYAML: dates and base-60 numbers stay text, `12e5` is a number and `y` a boolean (so that an
unquoted token of that shape is refused exactly where kubectl refuses it), unknown tags are ignored, and a file
ends with its first document.
"""

from __future__ import annotations

from typing import Any

from fencectl.core.errors import UsageError
from fencectl.core.goyaml import explain, loader_class

_VIEW_HINT = "`kubectl config view` reads the same file and shows the same error"


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
        loader = loader_class()(text)
        try:
            return loader.get_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _broken(error, text, shown=shown) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        raise UsageError(f"{shown}: not valid YAML", hint=_VIEW_HINT) from None


def _broken(error: Any, text: bytes, *, shown: str) -> UsageError:
    line, why = explain(error, text)
    where = shown if line is None else f"{shown} line {line}"
    return UsageError(f"{where}: {why}", hint=_VIEW_HINT)
