"""The openai and anthropic clients under Logfire, which sends to no one but the gateway."""

# The snippet of the page goes here.

from tests.clients.apps.exercises import anthropic_calls, openai_calls

openai_calls()
anthropic_calls()
