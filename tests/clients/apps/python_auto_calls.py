"""The openai and anthropic clients, with nothing of telemetry in the program."""

# The snippet of the page goes here.

from tests.clients.apps.exercises import anthropic_calls, more_openai_calls, openai_calls

openai_calls()
more_openai_calls()
anthropic_calls()
