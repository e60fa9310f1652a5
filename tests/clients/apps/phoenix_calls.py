"""The openai client under Phoenix' `register()`, which turns on what OpenInference has."""

from phoenix.otel import register

from tests.clients.apps.exercises import openai_calls

provider = register(auto_instrument=True, batch=True)

openai_calls()
provider.shutdown()
