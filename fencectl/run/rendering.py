"""
Read what is to be deployed: files, folders, stdin, and what kustomize builds. Nothing of it touches a cluster.

Folders are read as kubectl does: their own files that end with `.yaml`, `.yml` or `.json`, in order of name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fencectl.core.errors import UsageError
from fencectl.core.manifest_text import MAX_BYTES, NOTHING
from fencectl.core.manifests import Source

STDIN = "-"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_ENDINGS = (".yaml", ".yml", ".json")
# A kustomization may fetch bases from afar; what takes longer than this waits for somebody.
BUILD_TIMEOUT_S = 120.0
_SHOWN_ERROR = 400


def read_sources(
    paths: Sequence[str],
    kustomization: str | None,
    *,
    stdin: Callable[[], bytes],
    environ: Mapping[str, str],
    flag: str = "-f",
) -> tuple[Source, ...]:
    """
    Read everything, in the order given. `stdin`: reads it to its end. `flag`: what the paths were given with.

    Raises UsageError for the first that cannot be read.
    """
    if paths.count(STDIN) > 1:
        raise UsageError("`-f -` is there twice, and stdin can be read once", hint=NOTHING)
    found: list[Source] = []
    for path in paths:
        if path == STDIN:
            found.append(Source("stdin", stdin()))
        else:
            found += _read_path(path, flag)
    if kustomization is not None:
        found.append(_build(kustomization, environ))
    return tuple(found)


def _read_path(path: str, flag: str) -> list[Source]:
    if "://" in path:
        raise UsageError(
            f"`{flag} {path}` is a URL, and only files are read",
            hint=f"`curl -fsSL URL | fencectl deploy -f -`. {NOTHING}",
        )
    try:
        if not Path(path).is_dir():
            return [Source(path, _bytes_of(Path(path)))]
        names = sorted(entry.name for entry in Path(path).iterdir() if entry.name.endswith(_ENDINGS))
        files = [Path(path) / name for name in names]
        found = [Source(str(file), _bytes_of(file)) for file in files if not file.is_dir()]
    except OSError as failure:
        raise UsageError(f"{path}: {failure.strerror or failure}", hint=NOTHING) from None
    except ValueError:
        raise UsageError(f"`{flag}` is given what no path can be", hint=NOTHING) from None
    if not found:
        raise UsageError(f"{path}: no file in it ends with {', '.join(_ENDINGS)}", hint=NOTHING)
    return found


def is_kustomization(path: str) -> bool:
    """Whether a folder is one that kustomize builds."""
    return any(os.path.lexists(Path(path) / name) for name in _KUSTOMIZATIONS)


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _build(folder: str, environ: Mapping[str, str]) -> Source:
    """Have kustomize build a folder: its own program where there is one, else the one inside of kubectl."""
    # NB: kubectl comes second: one on the path may be a dispatcher that asks a server for its version first.
    where = environ.get("PATH", os.defpath)
    if (program := shutil.which("kustomize", path=where)) is not None:
        command = [program, "build", "--", folder]
    elif (program := shutil.which("kubectl", path=where)) is not None:
        command = [program, "kustomize", "--", folder]
    else:
        raise UsageError(
            "`-k` needs kustomize or kubectl, and neither is on the PATH",
            hint=f"install one of them, or build it elsewhere and use `-f -`. {NOTHING}",
        )
    shown = f"{Path(program).name} {command[1]} {folder}"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environ),
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"`{shown}` had not ended after {BUILD_TIMEOUT_S:.0f}s", hint=NOTHING) from None
    except OSError as failure:
        raise UsageError(f"`{shown}` cannot be run: {failure.strerror or failure}", hint=NOTHING) from None
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", errors="replace").split())
        raise UsageError(
            f"`{shown}` ended with {done.returncode}", reason=said[:_SHOWN_ERROR] or None, hint=NOTHING
        )
    return Source(f"`{shown}`", done.stdout)
