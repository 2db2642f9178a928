"""Holder identities: all spellings are read, what is written is read back, and hostile text names nobody."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from fencectl.core.identity import (
    MAX_LENGTH,
    HolderKind,
    github_identity,
    local_identity,
    parse_holder,
    pod_identity,
    revision16,
)

ALPHABET = re.compile(r"[a-z0-9.-]{1,200}")


@pytest.mark.parametrize(
    ("identity", "title", "kind"),
    [
        (
            "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a",
            "run 18093344127 attempt 2 job 51234567890",
            "github",
        ),
        ("4f2a91c07be3d855-gh18093344127.2-9c41e07a", "run 18093344127 attempt 2", "github"),
        ("deadbeefdeadbeef-gh77.1-3904-2045", "run 77 attempt 1", "github"),
        ("bootstrap-deadbeefdead-gh77.1-3904-2045", "run 77 attempt 1", "github"),
        ("4f2a91c07be3d855-local-build-host.example-4711-9c41e07a", "build-host.example pid 4711", "local"),
        ("deadbeefdeadbeef-local-3904-2045", "a workstation pid 3904", "local"),
        ("bootstrap-deadbeefdead-local-3904-2045", "a workstation pid 3904", "local"),
        ("4f2a91c07be3d855-pod-ci.runner-abc.x-9c41e07a", "pod ci/runner-abc.x", "pod"),
        ("deadbeef-3904-2045", "holder deadbeef-3904-2045", "opaque"),
    ],
)
def test_every_spelling_names_what_it_names(identity: str, title: str, kind: str) -> None:
    """Ours, the older ones and those of the other tool."""
    holder = parse_holder(identity)
    assert (holder.title, holder.kind.value) == (title, kind)


def test_case_01_identity_without_a_run_is_opaque() -> None:
    """Revision, pid and a random number name no run: liveness cannot be looked up."""
    holder = parse_holder("deadbeef-3904-2045")
    assert holder.kind is HolderKind.OPAQUE
    assert (holder.revision, holder.pid, holder.run) == ("deadbeef", 3904, None)


@pytest.mark.parametrize(
    "identity",
    [
        "",
        "   ",
        "o'brien",
        "$(touch pwned)",
        "4f2a91c07be3d855-gh18093344127.2-9c41e07a\n",
        "4f2a91c07be3d855-gh18093344127.2-9c41e07a\x1b[31m",
        "4f2a91c07be3d855-gh１８.2-9c41e07a",
        "4f2a91c07be3d855-gh123456789012345678901.2-9c41e07a",
        "4F2A-gh1.2-9c41e07a",
        "::error::x",
        "4f2a-gh1.2-" + "a" * 200,
    ],
)
def test_hostile_or_strange_identity_names_nobody_and_is_kept_whole(identity: str) -> None:
    """Nothing of it is believed, and nothing of it is lost."""
    holder = parse_holder(identity)
    assert holder.kind is HolderKind.OPAQUE
    assert holder.identity == identity
    assert holder.run is None


NONCE = st.text("0123456789abcdef", min_size=8, max_size=8)
ANY = st.text(max_size=300)


@given(
    revision=ANY,
    run=st.integers(1, 10**19),
    attempt=st.integers(1, 999),
    job=st.none() | st.integers(1, 10**19),
    nonce=NONCE,
)
def test_written_github_identity_is_read_back(
    revision: str, run: int, attempt: int, job: int | None, nonce: str
) -> None:
    """Run, attempt and job survive any revision text."""
    identity = github_identity(revision=revision, run=run, attempt=attempt, job=job, nonce=nonce)
    holder = parse_holder(identity)
    assert ALPHABET.fullmatch(identity)
    assert (holder.kind, holder.run, holder.attempt, holder.job, holder.nonce) == (
        HolderKind.GITHUB,
        run,
        attempt,
        job,
        nonce,
    )


@given(revision=ANY, host=ANY, pid=st.integers(1, 4_194_304), nonce=NONCE)
def test_written_local_identity_is_read_back(revision: str, host: str, pid: int, nonce: str) -> None:
    """Any host name fits, in the alphabet of identities."""
    identity = local_identity(revision=revision, host=host, pid=pid, nonce=nonce)
    holder = parse_holder(identity)
    assert ALPHABET.fullmatch(identity)
    assert (holder.kind, holder.pid, holder.nonce) == (HolderKind.LOCAL, pid, nonce)


@given(revision=ANY, namespace=ANY, name=ANY, nonce=NONCE)
def test_written_pod_identity_is_read_back(revision: str, namespace: str, name: str, nonce: str) -> None:
    """Namespace and name fit, cut and hashed where they must be."""
    identity = pod_identity(revision=revision, namespace=namespace, name=name, nonce=nonce)
    holder = parse_holder(identity)
    assert ALPHABET.fullmatch(identity)
    assert len(identity) <= MAX_LENGTH
    assert (holder.kind, holder.nonce) == (HolderKind.POD, nonce)


def test_pod_names_that_are_cut_never_look_alike() -> None:
    """The hash tells two long names with the same start apart."""
    made = {pod_identity(revision="a", namespace="ci", name="x" * 240 + end, nonce="0" * 8) for end in "ab"}
    assert len(made) == 2
    assert (
        parse_holder(pod_identity(revision="a", namespace="ci", name="runner-1.x", nonce="0" * 8)).pod_name
        == "runner-1.x"
    )


def test_revision_of_nothing_is_zeros() -> None:
    """A run without any revision still has sixteen characters."""
    assert revision16("") == "0" * 16
    assert revision16("4F2A91C07BE3D8551234") == "4f2a91c07be3d855"
