"""An application with Langfuse's SDK 2: its wrapper around openai, and
generations that it states bit by bit.

python -m tests.e2e.clients.langfuse_v2 LLM_BASE_URL

The gateway's address and key are in `LANGFUSE_HOST`, `LANGFUSE_PUBLIC_KEY` and
`LANGFUSE_SECRET_KEY`. It prints the number of calls.
"""

import sys
import time
from contextlib import suppress

import httpx
from langfuse import Langfuse
from langfuse.openai import openai

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
API_KEY = "sk-CANARY-7Q-KEY"
STREAM_TAKES_S = 1.0
"""Longer than the gateway of the test settles. The answer is what takes this
time: nothing is waited for."""


def main() -> None:
    """Entry point."""
    base_url = sys.argv[1]
    sdk = Langfuse()
    calls = _wrapped(f"{base_url}/s/shop/v1", f"{base_url}/s/error429/v1") + _told_in_parts(
        sdk, f"{base_url}/s/later/v1"
    )
    openai.flush_langfuse()
    sdk.flush()
    sys.stdout.write(f"{calls}\n")


def _wrapped(url: str, failing_url: str) -> int:
    client = openai.OpenAI(base_url=url, api_key=API_KEY, max_retries=0)
    asking = [{"role": "user", "content": PROMPT}]
    who = {"user_id": "user-7", "session_id": "session-1"}
    client.chat.completions.create(model="gpt-4o-mini", messages=asking, **who)
    chunks = client.chat.completions.create(
        model="gpt-4.1-mini", messages=asking, stream=True, stream_options={"include_usage": True}, **who
    )
    for _ in chunks:
        pass
    client.responses.create(model="gpt-4o", input=PROMPT)
    failing = openai.OpenAI(base_url=failing_url, api_key=API_KEY, max_retries=0)
    with suppress(openai.APIStatusError):
        failing.chat.completions.create(model="gpt-4o", messages=asking)
    return 4


def _told_in_parts(sdk: Langfuse, url: str) -> int:
    """One generation whose create, updates, end and trace go in requests of their own, below a
    chain that repeats nothing.
    """
    trace = sdk.trace(name="checkout", input=PROMPT, tags=["team:blue"])
    chain = trace.span(name="chain", input=PROMPT)
    generation = chain.generation(name="answer", model="gpt-4o", input=PROMPT)
    sdk.flush()
    answer = httpx.post(
        f"{url}/chat/completions", json={"model": "gpt-4o", "messages": [{"role": "user", "content": PROMPT}]}
    ).json()
    time.sleep(STREAM_TAKES_S)
    generation.update(metadata={"step": PROMPT})
    sdk.flush()
    time.sleep(STREAM_TAKES_S)
    generation.end(output=answer["choices"][0]["message"]["content"], usage_details=answer["usage"])
    sdk.flush()
    chain.end(output=PROMPT)
    trace.update(user_id="user-7", session_id="session-1", output=PROMPT)
    sdk.flush()
    return 1


if __name__ == "__main__":
    main()
