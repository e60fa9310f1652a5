"""As much of a Kubernetes API server as Helm's `lookup` asks: kinds, and Secrets."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

Secrets = Mapping[tuple[str, str], Mapping[str, str]]
"""(namespace, name) -> entry -> base64."""
KINDS = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ["get"]}
    ],
}


class KubernetesApi:
    """On loopback, from `__enter__` to `__exit__`; `kubeconfig` leads to it."""

    def __init__(self, folder: Path, secrets: Secrets) -> None:
        self._answers: dict[str, Any] = {
            "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": KINDS,
        }
        for (namespace, name), data in secrets.items():
            metadata = {"namespace": namespace, "name": name}
            found = {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": dict(data)}
            self._answers[f"/api/v1/namespaces/{namespace}/secrets/{name}"] = found
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(config_of(f"http://127.0.0.1:{self._server.server_port}")))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self._answers

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
                body = json.dumps(missing if answer is None else answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing on stderr."""

        return Handler


def config_of(server: str) -> dict[str, Any]:
    """A kubeconfig, in JSON."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
        "current-context": "test",
    }
