"""OpenRouter: Broadcast (OTLP/JSON, by POST or PUT) goes OTLP's way; rows of `GET
/api/v1/generation` are read here.

1. Saving a destination sends an empty export (`{"resourceSpans": []}`) with `X-Test-Connection:
   true`: it holds nothing, and nothing is rejected.
2. Rows: `gateway.products.generations`.
"""

from gateway.products.generations import generations
from gateway.products.rows import rows_reader
from gateway.products.source import Snippet, Source

SOURCE = Source(
    name="openrouter",
    title="OpenRouter",
    read=rows_reader(generations("openrouter", {})),
    snippet=Snippet(
        "text",
        "OpenRouter > Settings > Observability > Enable Broadcast > Webhook (or OpenTelemetry Collector)\n"
        "  URL      {url}\n"
        '  Headers  {{"Authorization": "{key}"}}\n'
        "  Method   POST\n",
    ),
    retries="OpenRouter documents no repeat: what is not answered with 2xx counts as lost. Saving the destination needs 2xx to its test.",
)
