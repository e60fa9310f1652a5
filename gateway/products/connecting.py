"""What a sender needs to reach this gateway, as plain data: its address, how it shows its key, what
to paste into it. Pure.
"""

from typing import Any, Final

from gateway.products.catalogue import SOURCES
from gateway.products.otlp_senders import OTLP_SENDERS, OtlpSender
from gateway.products.source import Source, WayIn

KEY: Final = "YOUR_KEY"
"""In a snippet, where the sender's key belongs."""
SNIPPET_IN: Final = {
    "console": "in a shell",
    "sh": "in its environment",
    "python": "in the program",
    "javascript": "in the program",
    "yaml": "in its configuration",
}
"""Where a snippet without a file belongs, by its language."""
WAYS_IN: Final[dict[WayIn, str]] = {
    "key": "key (Authorization, x-api-key)",
    "firehose_access_key": "key as Firehose access key",
    "vendor_headers": "key in x-goog-api-key, cf-aig-authorization or hec",
    "path_token": "key in the address (sources.{name}.url_token)",
    "hmac_sha256": "signature (sources.{name}.secret)",
    "hmac_sha1": "signature (sources.{name}.secret)",
}


def connection(name: str, address: str, grpc: str, key: str = KEY) -> dict[str, Any] | None:
    """What the sender of that name needs; None where none has it.

    *address*: base URL of the senders' listener. *grpc*: `host:port` of their gRPC listener.
    """
    if (source := SOURCES.get(name)) is not None:
        return described(source, address, key)
    if (sender := OTLP_SENDERS.get(name)) is not None:
        return described_sender(sender, address, grpc, key)
    return None


def described(source: Source, address: str, key: str = KEY) -> dict[str, Any]:
    """The source as plain data; *address* is the base URL of the senders' listener."""
    url = f"{address.rstrip('/')}/v1/sources/{source.name}"
    return {
        "kind": "source",
        "name": source.name,
        "title": source.title,
        "url": url,
        "also_at": [address.rstrip("/") + path for path in source.native_paths],
        "authentication": [WAYS_IN[way].format(name=source.name) for way in source.ways_in],
        "when_refused": source.retries,
        "snippet": source.snippet.addressed(url=url, key=key),
        "language": source.snippet.language,
        "snippets": [
            {"language": each.language, "file": "", "text": each.addressed(url=url, key=key)}
            for each in source.snippets
        ],
    }


def described_sender(sender: OtlpSender, address: str, grpc: str, key: str = KEY) -> dict[str, Any]:
    """The OTLP sender as plain data; *grpc* is `host:port` of the senders' gRPC listener."""
    url = address.rstrip("/")
    return {
        "kind": "otlp",
        "name": sender.name,
        "title": sender.title,
        "url": url,
        "run_with": sender.run_with,
        "needs": sender.needs,
        "not_reported": sender.unreported or None,
        "snippets": [
            {
                "language": paste.language,
                "file": paste.file and f"~/{paste.file}",
                "text": paste.addressed(url=url, grpc=grpc, key=key),
            }
            for paste in sender.pastes
        ],
    }
