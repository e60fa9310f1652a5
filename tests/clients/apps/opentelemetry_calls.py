"""The openai client under OpenTelemetry's own instrumentation."""

from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

from tests.clients.apps.exercises import openai_chat_calls
from tests.clients.apps.telemetry import provider

OpenAIInstrumentor().instrument()

openai_chat_calls()
provider.shutdown()
