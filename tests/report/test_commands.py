"""
Printed commands: what a shell hands to kubectl is the patch.

Aspects: any text · names that kubectl would read otherwise · size · case_38 and case_40 · the real kubectl.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from fencectl.core.patches import GuardedPatch, annotation, drop, guard, put, seal
from fencectl.core.refs import ObjectRef
from fencectl.core.report import Release
from fencectl.report.commands import NotPrintableError, Shell, Where, as_kubectl, command_of, printable, zone
from fencectl.report.shell import quote
from tests.report import story
from tests.report.unquote import powershell_words

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
NASTY = [
    "o'brien",
    '"quoted" \\ back\\slash',
    "$(touch pwned) `touch pwned` ${HOME} $HOME !! !x ; & | > pwned",
    "two\nlines\r\nthree\ttabs",
    "\x1b[31mred\x1b[0m\x9b1m\x07",
    "::error::x",
    "##[add-mask]x",
    "\u202egnp.exe\u2066\u200b\u2028\u2029\ufeff\ufffe\uffff\x7f\x85",
    "’‘‚‛“”„ curly",
    "\U0001f600 \U000e0041 é ü 漢字",
    "'\"'\"'",
    "%s %n %% \\n \\033",
    "a b\\\\",
    "",
]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubectl that writes down its arguments, each ended by a NUL."""
    folder = tmp_path_factory.mktemp("stub")
    program = folder / "kubectl"
    program.write_text('#!/bin/sh\nprintf \'%s\\0\' "$@" >"$OUT"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def run(stub: Path, line: str, shell: str = "sh") -> list[str]:
    """Run one printed line by a real shell; what kubectl got."""
    out = stub / "argv"
    out.unlink(missing_ok=True)
    environment = {"PATH": f"{stub}:/usr/bin:/bin", "OUT": str(out), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [shell], input=line.encode(), cwd=stub, env=environment, capture_output=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (stub / "pwned").exists()
    return out.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]


def patch_of(text: str, key: str = "example.io/owner") -> GuardedPatch:
    ref = story.node("worker-1")
    return seal(ref, [guard(annotation(key), text), drop(annotation(key)), put("/spec/x", [text], present=False)])


def test_command_names_everything_in_the_documented_order() -> None:
    """Kubeconfig, context, namespace, resource, name, type, field manager, patch."""
    patch = seal(story.lease(), [])
    assert as_kubectl(patch, Where("prod", "/tmp/k c")) == (
        "kubectl --kubeconfig '/tmp/k c' --context prod -n flux-system patch leases.coordination.k8s.io "
        "fencectl-deploy --type=json --field-manager=fencectl -p "
        '\'[{"op":"test","path":"/metadata/uid","value":"a94d7c10-3e58-4b1f-8d64-2f0c9be5d7a6"}]\''
    )


@pytest.mark.parametrize("shell", [name for name in ("sh", "dash", "bash", "zsh") if shutil.which(name)])
@pytest.mark.parametrize("text", NASTY)
def test_case_40_nasty_text_reaches_kubectl_and_nothing_else_happens(stub: Path, text: str, shell: str) -> None:
    """Quotes, expansions, line feeds and escapes in a holder change neither the command nor the folder."""
    patch = patch_of(text)
    line = as_kubectl(patch, Where("prod"))
    assert "\n" not in line
    argv = run(stub, line, shell)
    assert argv[-1] == printable(patch.body)
    assert json.loads(argv[-1]) == patch.operations
    assert argv[:-1] == [
        "--context", "prod", "patch", "node", "worker-1", "--type=json", "--field-manager=fencectl", "-p",
    ]  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=ANY_TEXT)
def test_printed_command_in_a_real_shell_is_the_patch(stub: Path, text: str) -> None:
    """Byte for byte; decoded where the text holds characters that kubectl or a terminal would act on."""
    patch = patch_of(text)
    argv = run(stub, as_kubectl(patch, Where("prod")))
    assert json.loads(argv[-1]) == patch.operations
    if printable(text) == text:
        assert argv[-1] == patch.body


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40))
def test_any_context_reaches_kubectl_on_one_line_or_is_refused(stub: Path, context: str) -> None:
    """Names of contexts are free text in a kubeconfig."""
    try:
        line = as_kubectl(patch_of("x"), Where(context))
    except NotPrintableError:
        assert context.endswith("\n")
        return
    assert line.isprintable() or not any(ord(char) < 0xA0 and not char.isprintable() for char in line)
    assert run(stub, line)[1] == context


def test_kubeconfig_path_that_is_not_utf8_reaches_kubectl_as_its_bytes(stub: Path) -> None:
    """Python holds such bytes as surrogates, which no terminal can show."""
    path = os.fsdecode(b"/tmp/caf\xe9/config")
    line = as_kubectl(patch_of("x"), Where(None, path))
    assert line.isascii()
    assert run(stub, line)[1] == path


@pytest.mark.parametrize("key", ["fence.example.io/owner", "~odd/ke~1y", "a~b"])
def test_case_38_keys_with_slash_and_tilde_reach_kubectl_escaped_once(stub: Path, key: str) -> None:
    """`~` first, then `/`, in paths and not in values."""
    patch = patch_of(key, key)
    operations = json.loads(run(stub, as_kubectl(patch))[-1])
    path = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
    assert [op["path"] for op in operations[1:3]] == [path, path]
    assert operations[1]["value"] == key


@pytest.mark.parametrize("name", ["", "-A", "--all", ".", "a/b", "a,b", "a=b"])
@pytest.mark.parametrize("shell", list(Shell))
def test_name_that_kubectl_reads_as_something_else_has_no_command(name: str, shell: Shell) -> None:
    """An option, a list, a label or a path is not one object."""
    patch = seal(story.node(name), [])
    with pytest.raises(NotPrintableError):
        as_kubectl(patch, shell=shell)


def test_name_with_line_feed_and_escape_stays_one_word_on_one_line(stub: Path) -> None:
    """A server that hands out such a name does not get it onto the terminal."""
    name = "worker\n::error::x\x1b[31m$(touch pwned)'"
    line = as_kubectl(seal(story.node(name), []))
    assert "\n" not in line
    assert "\x1b" not in line
    assert run(stub, line)[2] == name


def test_patch_longer_than_an_argument_has_no_command_but_a_file() -> None:
    """Linux takes 128 KiB per argument; a command that cannot run is not printed."""
    patch = patch_of("x" * 66_000 + "\\" * 1000)
    with pytest.raises(NotPrintableError, match="longer than one argument"):
        as_kubectl(patch)
    assert as_kubectl(patch, patch_file="p.json").endswith("--field-manager=fencectl --patch-file p.json")
    with pytest.raises(NotPrintableError, match="longer than one argument"):
        as_kubectl(patch_of("x" * 16_000), shell=Shell.POWERSHELL)


def test_nul_in_an_argument_is_refused() -> None:
    """No system hands over a NUL."""
    for shell in Shell:
        with pytest.raises(NotPrintableError):
            quote("a\0b", shell=shell)


@given(text=ANY_TEXT)
def test_powershell_reads_back_every_argument(text: str) -> None:
    """Checked by an unquoter that was written from the language's description alone."""
    text = text.replace("\0", "")
    assert powershell_words(f"kubectl {quote(text, shell=Shell.POWERSHELL)}") == ["kubectl", text]


@pytest.mark.parametrize("text", NASTY)
def test_case_40_nasty_text_in_powershell_is_the_patch(text: str) -> None:
    """Typographic quotes end a PowerShell string too; they are doubled like the others."""
    patch = patch_of(text)
    line = as_kubectl(patch, Where("prod"), shell=Shell.POWERSHELL)
    assert "\n" not in line
    words = powershell_words(line)
    assert words[-1] == printable(patch.body)
    assert words[:4] == ["kubectl", "--context", "prod", "patch"]
    pwsh = shutil.which("pwsh")
    if pwsh is not None:
        body = f"function kubectl {{ [Console]::Out.Write($args[-1]) }}; {line}"
        done = subprocess.run([pwsh, "-NoProfile", "-Command", body], capture_output=True, check=True)
        assert done.stdout.decode() == words[-1]


def test_real_kubectl_reads_every_character_of_a_printed_patch(tmp_path: Path) -> None:
    """kubectl reads patches as YAML: what that would refuse or alter arrives as it was meant."""
    chars = [chr(code) for code in range(1, 0x10000) if not 0xD800 <= code <= 0xDFFF]
    text = "".join([*chars, "\U0001f600\U000e0041\U0010ffff ##[error]x"])
    ref = ObjectRef("v1", "ConfigMap", "configmaps", "default", "x", "1")
    patch = seal(ref, [put(annotation("z"), text, present=False)])
    thing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "uid": "1", "annotations": {"a": "b"}},
    }
    (tmp_path / "object.json").write_text(json.dumps(thing))
    (tmp_path / "patch.json").write_text(printable(patch.body))
    kubectl = Path(sys.executable).parent / "kubectl"
    done = subprocess.run(
        [
            kubectl, "patch", "--local", "-f", tmp_path / "object.json", "--type=json",
            "--patch-file", tmp_path / "patch.json", "-o", "json",
        ],
        capture_output=True, check=False, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["metadata"]["annotations"]["z"] == text


@pytest.mark.parametrize("shell", [name for name in ("sh", "bash", "zsh") if shutil.which(name)])
def test_whole_zone_pasted_into_a_shell_runs_the_commands_in_order(tmp_path: Path, shell: str) -> None:
    """Comments included: the zone is valid shell."""
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\nfor last do :; done\nprintf \'%s\\n\' "$last" >>"$OUT"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUT": str(tmp_path / "out")}
    report = story.mixed()
    text = "".join(f"{line}\n" for line in zone(report, explain=True))
    done = subprocess.run([shell], input=text, text=True, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    bodies = [entry.release.patch.body for entry in report.releasable if entry.release is not None]
    assert (tmp_path / "out").read_text().splitlines() == bodies


@pytest.mark.parametrize(
    ("check", "proof"),
    [
        (story.CHECK, "the check above says `completed`"),
        ("ps -p 4711", "the check above shows that their holder is gone"),
        (None, "you know that their holder is gone"),
    ],
)
def test_unproven_holder_says_what_would_prove_it(check: str | None, proof: str) -> None:
    """The words fit the check that is printed."""
    judgement = replace(story.UNKNOWN, check=check)
    lines = zone(story.report(story.block(story.dead_entries(), judgement)))
    assert f"# NOT PROVEN DEAD: run these only if {proof}" in lines


def test_fence_without_printable_command_stops_its_holders_chain() -> None:
    """What comes after it is not printed either: it would be released out of order."""
    entries = list(story.dead_entries())
    odd = story.node("-A")
    entries[1] = replace(entries[1], object=odd, release=Release(seal(odd, []), "uncordon"))
    lines = zone(story.report(story.block(entries)))
    assert sum(line.startswith("kubectl ") for line in lines) == 1
    assert "# no command: kubectl would not read this name as one object" in lines
    assert lines[-1] == "# 5/5 lease/flux-system/fencectl-deploy: waits for 2"
    assert [command_of(one, Where()) is None for one in entries] == [False, True, False, False, False]
    assert command_of(story.foreign()[0], Where()) is None
