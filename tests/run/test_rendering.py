"""Aspects: files · folders as kubectl reads them · stdin · kustomize by either program · what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fencectl.core.errors import UsageError
from fencectl.run.rendering import read_sources
from tests.support.realcluster import find_kubectl

CM = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def no_stdin() -> bytes:
    raise AssertionError("nobody asked for stdin")


def read(*paths: str, kustomization: str | None = None, path: str = "", stdin: Callable[[], bytes] = no_stdin) -> list[tuple[str, bytes]]:  # fmt: skip
    found = read_sources(paths, kustomization, stdin=stdin, environ={"PATH": path})
    return [(source.shown, source.text) for source in found]


def program(folder: Path, name: str, script: str) -> str:
    """A program of this name that does this; the path that finds it."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin"


def test_folder_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    """Its own files with the three endings, by name; no folders below, nothing else."""
    for name in ("b.yaml", "a.yml", "c.json", "readme.md", "d.yaml.bak"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub.yaml").mkdir()
    assert [text for _, text in read(str(tmp_path))] == [b"a.yml", b"b.yaml", b"c.json"]
    assert read(str(tmp_path / "readme.md")) == [(str(tmp_path / "readme.md"), b"readme.md")]


def test_stdin_is_read_once_in_its_place(tmp_path: Path) -> None:
    """`-` is no file of that name."""
    file = tmp_path / "x"
    file.write_text("x")
    assert read(str(file), "-", stdin=lambda: b"in") == [(str(file), b"x"), ("stdin", b"in")]
    with pytest.raises(UsageError, match="stdin can be read once"):
        read("-", "-", stdin=lambda: b"in")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no-such-file.yaml", "no-such-file.yaml: No such file or directory"),
        ("https://example.com/x.yaml", "`-f https://example.com/x.yaml` is a URL, and only files are read"),
        ("a\0b", "`-f` is given what no path can be"),
    ],
)
def test_what_cannot_be_read_is_refused(path: str, sentence: str) -> None:
    """By its name."""
    with pytest.raises(UsageError) as raised:
        read(path)
    assert raised.value.sentence == sentence


def test_folder_without_a_manifest_is_no_empty_render(tmp_path: Path) -> None:
    """A wrong path is an error, not "nothing to do"."""
    (tmp_path / "readme.md").touch()
    with pytest.raises(UsageError, match=r"no file in it ends with \.yaml, \.yml, \.json"):
        read(str(tmp_path))


def test_kustomization_is_built_by_the_real_kubectl(tmp_path: Path) -> None:
    """Without kustomize on the path; with the prefix that it asks for."""
    (tmp_path / "cm.yaml").write_text(CM)
    (tmp_path / "kustomization.yaml").write_text("namePrefix: built-\nresources: [cm.yaml]\n")
    ((shown, text),) = read(kustomization=str(tmp_path), path=str(Path(find_kubectl()).parent))
    assert shown == f"`kubectl kustomize {tmp_path}`"
    assert b"name: built-a" in text


def test_kustomize_goes_before_kubectl(tmp_path: Path) -> None:
    """A kubectl may be a dispatcher that asks a server first."""
    program(tmp_path / "bin", "kubectl", "exit 9")
    path = program(tmp_path / "bin", "kustomize", 'printf "%s|" "$@"')
    assert read(kustomization="dir", path=path) == [("`kustomize build dir`", b"build|--|dir|")]


def test_build_that_fails_is_told_with_its_own_words_cut(tmp_path: Path) -> None:
    """One line, whatever it printed."""
    path = program(tmp_path / "bin", "kustomize", "echo 'no such\nbase' >&2; head -c 9999 /dev/zero >&2; exit 3")
    with pytest.raises(UsageError) as raised:
        read(kustomization="dir", path=path)
    assert raised.value.sentence == "`kustomize build dir` ended with 3"
    assert (raised.value.reason or "").startswith("no such base")
    assert len(raised.value.reason or "") <= 400


def test_neither_program_is_stated() -> None:
    """And what else can be done."""
    with pytest.raises(UsageError) as raised:
        read(kustomization="dir", path="/nowhere")
    assert raised.value.sentence == "`-k` needs kustomize or kubectl, and neither is on the PATH"
    assert "`-f -`" in (raised.value.hint or "")
