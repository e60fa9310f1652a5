"""The openai and anthropic clients under OpenLIT."""

import openlit
from opentelemetry import trace

from tests.clients.apps.exercises import anthropic_calls, openai_calls

openlit.init(application_name="checkout-bot")

openai_calls()
anthropic_calls()
trace.get_tracer_provider().shutdown()
