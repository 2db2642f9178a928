"""A GitRepository that a test plays: it serves the artifacts itself, and says when there is a new one."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.clusters import SOURCE, Cluster, Raw, ensure_namespace, expect

AT = "2026-11-30T02:00:00Z"
NAMESPACE = "flux-system"


@dataclass
class Source:
    """The repository `repo`, whose artifacts this process serves to the controller."""

    cluster: Cluster
    blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blobs = self.blobs

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = blobs[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        ensure_namespace(self.cluster, NAMESPACE)
        self.path = f"{SOURCE}/namespaces/{NAMESPACE}/gitrepositories"
        body: Raw = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "repo"},
        }
        self.cluster.create(self.path, body | {"spec": {"url": "https://example.com/x", "interval": "1m"}})

    def publish(self, digest: str, files: Mapping[str, str]) -> str:
        """Offer a new revision with these files; the revision as Flux writes it."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
        data, name = out.getvalue(), f"/{digest}.tar.gz"
        self.blobs[name] = data
        artifact = {
            "path": name,
            "url": f"http://127.0.0.1:{self.server.server_port}{name}",
            "revision": f"main@sha1:{digest}",
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size": len(data),
            "lastUpdateTime": AT,
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "m",
            "lastTransitionTime": AT,
        }
        status = {"artifact": artifact, "observedGeneration": 1, "conditions": [ready]}
        expect(self.cluster.merge_patch(f"{self.path}/repo/status", {"status": status}), 200)
        return f"main@sha1:{digest}"

    def close(self) -> None:
        """Stop serving."""
        self.server.shutdown()
        self.server.server_close()
