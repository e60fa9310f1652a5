"""The openai and anthropic clients under Logfire, which sends to no one but the gateway."""

import logfire

from tests.clients.apps.exercises import anthropic_calls, openai_calls

logfire.configure(send_to_logfire=False, service_name="checkout-bot")
logfire.instrument_openai()
logfire.instrument_anthropic()

openai_calls()
anthropic_calls()
logfire.shutdown()
