"""An application with Langfuse's current SDK, which sends OTLP: its wrapper around openai,
and a generation of its own.

python -m tests.e2e.clients.langfuse_otel LLM_BASE_URL

The gateway's address and key are in `LANGFUSE_BASE_URL`, `LANGFUSE_PUBLIC_KEY` and
`LANGFUSE_SECRET_KEY`. It prints the number of calls.
"""

import sys
from contextlib import suppress

import httpx
from langfuse import Langfuse, get_client, propagate_attributes
from langfuse.openai import openai

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
API_KEY = "sk-CANARY-7Q-KEY"


def main() -> None:
    """Entry point."""
    base_url = sys.argv[1]
    sdk = get_client()
    with propagate_attributes(user_id="user-7", session_id="session-1"):
        calls = _wrapped(f"{base_url}/s/shop/v1", f"{base_url}/s/error429/v1") + _own(sdk, f"{base_url}/s/later/v1")
    sdk.flush()
    sdk.shutdown()
    sys.stdout.write(f"{calls}\n")


def _wrapped(url: str, failing_url: str) -> int:
    client = openai.OpenAI(base_url=url, api_key=API_KEY, max_retries=0)
    asking = [{"role": "user", "content": PROMPT}]
    client.chat.completions.create(model="gpt-4o-mini", messages=asking)
    chunks = client.chat.completions.create(
        model="gpt-4.1-mini", messages=asking, stream=True, stream_options={"include_usage": True}
    )
    for _ in chunks:
        pass
    client.responses.create(model="gpt-4o", input=PROMPT)
    client.embeddings.create(model="text-embedding-3-small", input=[PROMPT])
    failing = openai.OpenAI(base_url=failing_url, api_key=API_KEY, max_retries=0)
    with suppress(openai.APIStatusError):
        failing.chat.completions.create(model="gpt-4o", messages=asking)
    return 5


def _own(sdk: Langfuse, url: str) -> int:
    """A generation below an agent that repeats its usage."""
    with sdk.start_as_current_observation(as_type="agent", name="checkout", input=PROMPT) as agent:
        with sdk.start_as_current_observation(as_type="generation", name="answer", model="gpt-4o", input=PROMPT) as own:
            answer = httpx.post(
                f"{url}/chat/completions", json={"model": "gpt-4o", "messages": [{"role": "user", "content": PROMPT}]}
            ).json()
            own.update(output=PROMPT, usage_details=answer["usage"])
        agent.update(output=PROMPT)
    return 1


if __name__ == "__main__":
    main()
