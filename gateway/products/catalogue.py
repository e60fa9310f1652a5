"""Every source by name.

A new one is one module (a folder when it needs several) and one line here, or the entry point of
another distribution (docs/plugins.md).
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.common.plugins import SOURCES_GROUP, BrokenPlugin, loaded, named
from gateway.products.agentgateway import SOURCE as AGENTGATEWAY
from gateway.products.aperture import SOURCE as APERTURE
from gateway.products.azure_apim import SOURCE as AZURE_APIM
from gateway.products.bedrock.source import SOURCE as BEDROCK
from gateway.products.bifrost import SOURCE as BIFROST
from gateway.products.cloudflare import SOURCE as CLOUDFLARE
from gateway.products.databricks import SOURCE as DATABRICKS
from gateway.products.envoy_ai_gateway import SOURCE as ENVOY_AI_GATEWAY
from gateway.products.generic.source import SOURCE as GENERIC
from gateway.products.generic.source import generic_source
from gateway.products.helicone import SOURCE as HELICONE
from gateway.products.kong import SOURCE as KONG
from gateway.products.langfuse.source import SOURCE as LANGFUSE
from gateway.products.litellm.source import SOURCE as LITELLM
from gateway.products.openai_usage_api import SOURCE as OPENAI_USAGE_API
from gateway.products.openrouter import SOURCE as OPENROUTER
from gateway.products.portkey import SOURCE as PORTKEY
from gateway.products.records.source import SOURCE as RECORDS
from gateway.products.source import Source
from gateway.products.vercel import SOURCE as VERCEL

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        LITELLM,
        KONG,
        PORTKEY,
        CLOUDFLARE,
        HELICONE,
        OPENROUTER,
        VERCEL,
        APERTURE,
        LANGFUSE,
        BEDROCK,
        ENVOY_AI_GATEWAY,
        BIFROST,
        AGENTGATEWAY,
        AZURE_APIM,
        DATABRICKS,
        OPENAI_USAGE_API,
        RECORDS,
        GENERIC,
    )
}  # fmt: skip
"""In the order of the docs."""


OWN: Final = frozenset(SOURCES)


def add_plugged_sources() -> None:
    """Add the sources of installed plug-ins; each process does it once, before it reads `SOURCES`.

    Raises BrokenPlugin.
    """
    for point, source in loaded(SOURCES_GROUP):
        if not isinstance(source, Source):
            raise BrokenPlugin(f"{named(point)} is no gateway.products.source.Source")
        if source.name != point.name or source.name in OWN:
            raise BrokenPlugin(
                f"{named(point)}: its source is named {source.name!r}; {point.name!r}, a new name, is needed"
            )
        SOURCES[source.name] = source


def sources_with(mapping: Mapping[str, Any] | None) -> Mapping[str, Source]:
    """The same, with `generic` reading by *mapping* (`GenericReader`), where one is configured."""
    return SOURCES if mapping is None else {**SOURCES, "generic": generic_source(mapping)}
