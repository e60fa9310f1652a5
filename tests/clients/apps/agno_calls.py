"""Agents of Agno under its OpenInference instrumentation."""

# The snippet of the page goes here.

from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.models.openai import OpenAIChat, OpenAIResponses

from tests.clients.apps.exercises import API_KEY, PROMPT, provider_url

MODELS = [
    OpenAIChat(id="gpt-4o", base_url=provider_url("shop") + "/v1", api_key=API_KEY),
    OpenAIResponses(id="gpt-4.1-mini", base_url=provider_url("shop") + "/v1", api_key=API_KEY),
    Claude(id="claude-sonnet-4-5", api_key=API_KEY, client_params={"base_url": provider_url("desk")}),
]
for model in MODELS:
    agent = Agent(model=model, telemetry=False)
    agent.run(PROMPT, user_id="user-7", session_id="session-7")
    for _ in agent.run(PROMPT, user_id="user-7", session_id="session-7", stream=True):
        pass
