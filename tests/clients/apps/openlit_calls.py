"""The openai and anthropic clients under OpenLIT."""

# The snippet of the page goes here.

from tests.clients.apps.exercises import anthropic_calls, openai_calls

openai_calls()
anthropic_calls()
