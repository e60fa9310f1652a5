"""LiteLLM's proxy with the printed settings and configuration, and a client that calls it.

It prints `asked` once all calls were made, and ends the proxy when its standard input ends.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

MASTER_KEY = "sk-CANARY-7Q-KEY"
PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
ASKED = [{"role": "user", "content": PROMPT}]
PORT = os.environ["PROXY_PORT"]
READY_TIMEOUT_S = 120.0


def post(path: str, **request: object) -> int:
    headers = {"Authorization": f"Bearer {MASTER_KEY}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{PORT}{path}"
    asked = urllib.request.Request(url, data=json.dumps(request).encode(), headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health/liveliness", timeout=5):
            return True
    except OSError:
        return False


def make_calls() -> None:
    for model in ("gpt-4o-mini", "claude-haiku-4-5"):
        post("/v1/chat/completions", model=model, messages=ASKED)
        post("/v1/chat/completions", model=model, messages=ASKED, stream=True)
    post("/v1/embeddings", model="text-embedding-3-small", input=[PROMPT])
    post("/v1/responses", model="gpt-4o-mini", input=PROMPT)
    post("/v1/chat/completions", model="failing", messages=ASKED)


if __name__ == "__main__":
    config = str(Path("config.yaml").absolute())
    command = ["litellm", "--config", config, "--host", "127.0.0.1", "--port", PORT]
    proxy = subprocess.Popen(command, stdout=sys.stderr)
    try:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not is_ready():
            if proxy.poll() is not None or time.monotonic() > deadline:
                sys.exit("the proxy does not start")
            time.sleep(0.2)  # it gives no other sign
        make_calls()
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        proxy.terminate()
        proxy.wait(60)
