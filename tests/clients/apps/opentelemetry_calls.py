"""The openai client under OpenTelemetry's own instrumentation."""

# The snippet of the page goes here.

from tests.clients.apps.exercises import openai_calls

openai_calls()
