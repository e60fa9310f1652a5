"""The part of the OpenAPI document that describes the senders' port."""

from gateway.common.lists.openapi.described import Json
from gateway.common.lists.openapi.document import read_folder
from gateway.operate.openapi.sender_paths import EVENT_CONTENT, sender_paths
from gateway.operate.openapi.sources import forwarded_otlp_paths, source_paths
from gateway.products.catalogue import SOURCES


def senders_part() -> Json:
    """As `read_folder` gives it, with the paths of all sources."""
    senders = read_folder("gateway.operate.openapi", "senders")
    answers = senders.pop("x-answers")
    senders["paths"] = sender_paths()
    senders["paths"]["/v1/events"]["post"]["requestBody"]["content"] |= EVENT_CONTENT
    senders["paths"] |= source_paths(tuple(SOURCES.values()), answers, senders["paths"])
    senders["paths"] |= forwarded_otlp_paths(senders["paths"])
    return senders
