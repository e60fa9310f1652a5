"""The openai and anthropic clients under Traceloop's SDK, which brings OpenLLMetry's
instrumentations.
"""

# The snippet of the page goes here.

from traceloop.sdk import Traceloop

from tests.clients.apps.exercises import anthropic_calls, openai_calls

Traceloop.set_association_properties({"user_id": "user-7", "session_id": "session-7"})
openai_calls()
anthropic_calls()
