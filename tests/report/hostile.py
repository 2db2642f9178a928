"""A report in which every text that others can write is hostile."""

from __future__ import annotations

from msgspec.structs import replace

from fencectl.core.evidence import Evidence, Judgement, Source, Verdict
from fencectl.core.identity import Holder, HolderKind
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.patches import annotation, drop, guard, seal
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease, Refusal, Release
from tests.report import story

TEXTS = {
    "terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\x7f",
    "bidi": "\u202egnp.exe\u2066\u200b\u2028\u2029\ufeff\u00ad",
    "rich": "[bold red]x[/] [link=http://evil]y[/link] [/metadata]",
    "workflow": "::error::owned",
    "workflow-line": "x\n::error::owned\r\n##[error]owned\n  ::add-mask::x",
    "bracket": "##[add-mask]owned",
    "table": "a | b | c\n| d | e |\n| --- | --- |",
    "markdown": "**b** _i_ `c` [l](http://evil) ![i](http://evil/i) <http://evil> # h\n\n# heading\n- item\n> q",
    "autolink": "http://evil.example www.evil.example evil@evil.example @someone #1 GH-2 :tada:",
    "html": "<img src=x onerror=alert(1)></summary></details><script>x</script>&lt;<!--",
    "fence": "```\n</details>\n~~~~\n````````",
    "quotes": "'\"`o'brien\\",
    "shell": "$(touch pwned) `touch pwned` ; touch pwned; & touch pwned | touch pwned > pwned\ntouch pwned\n#",
    "powershell": "’; touch pwned; ‘ $(touch pwned) `u{41}",
    "metrics": 'a"} 1\nfake_metric{x="\\',
    "yaml": "- x: &a [*a]\n? !!python/object\n...\n---\n",
    "surrogate": "\ud800x\udfff",
    "blank": " \t ",
}


def report(text: str) -> FenceReport:
    """Everything foreign is `text`, in front, behind or alone."""
    ref = ObjectRef("v1", "Node", "nodes", None, f"n{text}", "uid-1")
    patch = seal(ref, [guard(annotation("example.io/o"), text), drop(annotation("example.io/o"))])
    judgement = Judgement(
        Verdict.UNKNOWN,
        None,
        text,
        (
            Evidence(Source.JOB, text, text, story.NOW),
            Evidence(Source.HEARTBEAT, "is the lease renewed?", f"unknown: {text}", story.NOW),
        ),
        check=f"gh run view {text}",
    )
    holder = Holder(text, HolderKind.OPAQUE)

    def fence(order: int, kind: FenceKind = FenceKind.CORDON, ours: bool = True) -> FenceEntry:
        return FenceEntry(
            kind=kind, object=ref, ours=ours, holder=holder if ours else None, holder_text=text if ours else None,
            since=None, age_s=None, rank=0, order=order, now=text, after=text, manager=text, kept=False,
            release=None, refusal=Refusal(NoRelease.REFUSED, text, "REFUSED", (text,)), phase=text,
            notes=(text,), raw={"metadata": {"annotations": {text: text}}},
        )  # fmt: skip

    released = replace(
        fence(1), release=Release(patch, "drop the mark"), refusal=None, kept=True, kept_because=text,
        judgement=judgement,
    )  # fmt: skip
    block = HolderBlock(
        holder, judgement, (released, fence(2)), repository=text, workflow=text, server_url=text, runner=text,
        actor=text,
    )  # fmt: skip
    return FenceReport(
        context=f"c{text}x",
        print_context=f"c{text}x",
        kubeconfig=f"k{text}x",
        server=text,
        cluster_uid=text,
        profile="fencectl",
        observed_at=story.NOW,
        skew_s=None,
        unreadable=(Unreadable(text, text),),
        counts=ReadCounts(),
        blocks=(block,),
        unowned=(fence(3),),
        holds=(fence(4, FenceKind.HOLD),),
        findings=(fence(0, FenceKind.RECORD),),
        not_ours=(fence(0, ours=False),),
        notes=(text,),
    )
