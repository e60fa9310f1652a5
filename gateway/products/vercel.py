"""Vercel AI Gateway: trace drains (OTLP) go OTLP's way; rows of `GET /v1/generation` and entries of
log drains are read here.

Read from Vercel's documentation of drains (traces, logs) and of the AI Gateway's REST API.

1. Rows: `gateway.products.generations`; their `latency` is the time to the first token.
2. Log drains (NDJSON or an array) carry what builds, functions and the edge printed. None of
   their sources is the AI Gateway and no field holds usage, so each entry is ignored; its
   message is not looked into.
3. A drain proves itself by `x-vercel-signature`, the hex HMAC-SHA1 of the body; a log
   drain is verified by a request that expects the header `x-vercel-verify` with the
   team's code in the answer.
"""

from gateway.products.generations import generations
from gateway.products.rows import rows_reader
from gateway.products.source import Snippet, Source

SOURCE = Source(
    name="vercel",
    title="Vercel AI Gateway",
    read=rows_reader(generations("vercel", {"time_to_first_ms": ("latency",)})),
    snippet=Snippet(
        "text",
        "Vercel > Team Settings > Drains > Add Drain > AI Gateway Traces > Custom endpoint\n"
        "  Endpoint        {url}\n"
        "  Format          JSON or Protobuf\n"
        "  Custom headers  Authorization: {key}\n"
        "  Sampling        100 %: with any other rate calls are missing here\n",
    ),
    retries="Vercel does not say that it repeats a failed delivery: what is not answered with 2xx counts as lost.",
    ways_in=("key", "hmac_sha1"),
)
