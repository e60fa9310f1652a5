"""Coding assistants as their users run them, against a model provider that knows what it served;
telemetry goes out by the protocol that is their default.
"""

import json
import os
import subprocess
import time
from pathlib import Path

from benchmarks.processes import ProcessFailed
from tests.clients.programs import built, node, npm
from tests.clients.runs import Outcome, SenderFailed, Totals
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.mock_llm import Served
from tests.support.ports import OtlpPorts
from tests.support.provider import running_provider, served_by

ASSISTANTS = ("gemini-cli",)
PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
ANSWER_TIMEOUT_S = 120.0


def ask(name: str, folder: Path) -> Outcome:
    """One question, by *name*; nothing of the caller's home or environment reaches it. Raises
    InstallFailed and SenderFailed.
    """
    began = time.monotonic()
    program = built(name, npm)
    ports = OtlpPorts.free()
    with running_provider(folder) as url, GatewayProcess(folder, settle="2s", config=ports.settings()) as gateway:
        home = folder / "home"
        settings = home / ".gemini" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GEMINI_API_KEY": "any",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "true",
            "GEMINI_TELEMETRY_TARGET": "local",
            "GEMINI_TELEMETRY_OTLP_ENDPOINT": f"http://127.0.0.1:{ports.grpc}",
            "GOOGLE_GEMINI_BASE_URL": url,
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            [*node(), str(program / "node_modules/.bin/gemini"), "-m", "gemini-2.5-flash", "-p", PROMPT],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise SenderFailed(done.stderr[-2000:])
        expected = of_served(served_by(url))
        try:
            gateway.wait_until_delivered(at_least=expected.calls)
        except ProcessFailed:
            gateway.wait_until_delivered(at_least=0)
        counted = Totals.of(gateway.summary()["totals"])
        broken = broken_identities(gateway.status())
    return Outcome(expected, counted, broken, done.stderr, time.monotonic() - began)


def of_served(served: list[Served]) -> Totals:
    return Totals(
        len(served),
        sum(call["input_tokens"] or 0 for call in served),
        sum(call["output_tokens"] or 0 for call in served),
    )
