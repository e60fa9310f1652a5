"""The openai client under Phoenix' `register()`, which turns on what OpenInference has."""

# The snippet of the page goes here.

from tests.clients.apps.exercises import openai_calls

openai_calls()
