"""The real LiteLLM proxy on a loopback port, in an environment of its own, in front of
`tests.support.mock_llm`.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from benchmarks.processes import Process
from benchmarks.scenario import fetch
from tests.support.client_environments import client_python
from tests.support.ports import free_port

KEY = "sk-proxy-7f3a9c51d2e84b60a1c7d95e"
PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
READY_TIMEOUT_S = 90.0
_PROXY_OFF = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_AUTH = """
from litellm.proxy._types import UserAPIKeyAuth


async def admit(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, user_id="user-7", team_id="team-alpha", key_alias="checkout")
"""


def pushed(endpoint: str, log_format: str, **settings: object) -> dict[str, object]:
    """One callback of `callback_settings`."""
    return {
        "callback_type": "generic_api",
        "endpoint": endpoint,
        "headers": {"X-None": "-"},
        "log_format": log_format,
        **settings,
    }


class LiteLLMProxy:
    """The proxy, and the calls that a client makes of it."""

    def __init__(
        self,
        folder: Path,
        provider_url: str,
        *,
        callbacks: Sequence[str],
        settings: Mapping[str, object],
        env: Mapping[str, str] | None = None,
    ) -> None:
        """*callbacks* and *settings* are those of its configuration;
        *folder* holds what it writes.
        """
        folder.mkdir()
        self._port = free_port()
        (folder / "auth.py").write_text(_AUTH)
        config = folder / "config.yaml"
        config.write_text(json.dumps(_config(provider_url, callbacks, settings)))  # JSON is YAML
        self._log = folder / "proxy.log"
        python = client_python("litellm-proxy")
        proxy = [
            str(python.parent / "litellm"),
            "--config",
            str(config),
            "--host",
            "127.0.0.1",
            "--port",
            str(self._port),
        ]
        self._command = ["/bin/sh", "-c", 'exec "$0" "$@" >&2', *proxy]
        self._env = {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the internet for prices at import
            "LITELLM_TELEMETRY": "False",
            "LITELLM_LOG": "WARNING",
            "DEFAULT_FLUSH_INTERVAL_SECONDS": "1",  # instead of 5
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            **(env or {}),
        }
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self._process = Process(self._command, log=self._log, env=self._env)
        try:
            self._process.wait_until(self._is_ready, timeout_s=READY_TIMEOUT_S, what="ready")
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()

    def _is_ready(self) -> bool | None:
        try:
            fetch(f"http://127.0.0.1:{self._port}/health/liveliness")
        except OSError:
            return None
        return True

    def ask(self, path: str, request: Mapping[str, object]) -> int:
        """One call, to the end of its answer; its status."""
        post = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            data=json.dumps(request).encode(),
            headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        )
        try:
            with _PROXY_OFF.open(post, timeout=60) as answer:
                answer.read()
                status: int = answer.status
        except urllib.error.HTTPError as error:
            return error.code
        return status

    def chat(self, model: str, **request: object) -> int:
        return self.ask(
            "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": PROMPT}], **request}
        )

    def times_logged(self, words: str) -> int:
        """How often it wrote *words* down."""
        return self._log.read_bytes().count(words.encode())

    def wait_for_log(self, words: str, *, times: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until it wrote *words* down so often."""
        assert self._process is not None
        self._process.wait_until(
            lambda: True if self.times_logged(words) >= times else None, timeout_s=timeout_s, what=words
        )


def _config(provider_url: str, callbacks: Sequence[str], settings: Mapping[str, object]) -> dict[str, object]:
    def model(name: str, upstream: str, scenario: str, path: str = "/v1") -> dict[str, object]:
        base = f"{provider_url}/s/{scenario}{path}"
        return {
            "model_name": name,
            "litellm_params": {"model": upstream, "api_base": base, "api_key": "sk-CANARY-7Q-KEY"},
        }

    return {
        "model_list": [
            model("fast", "openai/gpt-4o-mini", "fast"),
            model("careful", "anthropic/claude-haiku-4-5", "careful", ""),
            model("embedder", "openai/text-embedding-3-small", "embedder"),
            model("broken", "openai/gpt-4o", "error500"),
            model("limited", "openai/gpt-4o", "error429"),
        ],
        "router_settings": {"num_retries": 0, "fallbacks": [{"broken": ["fast"]}]},
        "litellm_settings": {
            "callbacks": list(callbacks),
            "num_retries": 0,
            "cache": True,
            "cache_params": {"type": "local", "mode": "default_off"},
        },
        "general_settings": {"custom_auth": "auth.admit", "master_key": KEY},
        "callback_settings": dict(settings),
    }
