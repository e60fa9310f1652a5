"""The openai and anthropic clients under OpenInference's instrumentations."""

from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

from tests.clients.apps.exercises import anthropic_calls, openai_calls
from tests.clients.apps.telemetry import provider

OpenAIInstrumentor().instrument()
AnthropicInstrumentor().instrument()

openai_calls()
anthropic_calls()
provider.shutdown()
