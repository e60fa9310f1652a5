"""The paths of AI gateways, from their catalogue: each source's own, those its client chooses
itself, and OTLP behind its name. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.products.source import SOURCES_PATH, TOKEN_PATH, Source, WayIn

Json = dict[str, Any]

SIGNALS = ("traces", "logs", "metrics")
FORWARDED = "/v2/ai-telemetry/otlp"
ONLY_WITH_TOKEN = "Only where `sources.{name}.url_token` is on."  # noqa: S105 - words about one
ONLY_WITH_VERIFY = "Only where `sources.{name}.verify` is set."

TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 256}
TOKEN: Json = {"name": "token", "in": "path", "required": True, "schema": TEXT, "description": "An inbound key."}

SCHEMES: dict[WayIn, tuple[str, ...]] = {
    "firehose_access_key": ("firehoseAccessKey",),
    "vendor_headers": ("googApiKey", "cloudflareKey", "hec"),
    "hmac_sha256": ("heliconeSignature",),
    "hmac_sha1": ("vercelSignature",),
    "key": (),
    "path_token": (),
}
"""Way in -> security schemes beside those that every sender has."""


def source_paths(sources: Sequence[Source], answers: Json, otlp: Json) -> Json:
    """*answers*: responses by `Source.answers`.

    *otlp*: the path items of `/v1/traces`, `/v1/logs`, `/v1/metrics`.
    """
    named = {"name": "source", "in": "path", "required": True}
    named["schema"] = {"type": "string", "enum": [source.name for source in sources]}
    base = f"{SOURCES_PATH}/{{source}}"
    paths = dict(otlp_paths(base, "OTLP behind a source's address", otlp, [named]))
    paths |= dict(otlp_paths(base + TOKEN_PATH, "OTLP behind a source's address with a token", otlp, [named, TOKEN]))
    for source in sources:
        paths |= dict(own_paths(source, answers[source.answers]))
        for prefix in source.otlp_prefixes:
            paths |= dict(otlp_paths(prefix, f"{source.title}: OTLP", otlp, []))
    return {path: with_404(item) if "{" in path else item for path, item in paths.items()}


def with_404(item: Json) -> Json:
    """What a path with a parameter may answer too."""
    extra = {"404": {"$ref": "#/components/responses/NoSuchPath"}}
    return {way: {**each, "responses": {**each["responses"], **extra}} for way, each in item.items()}


def own_paths(source: Source, responses: Json) -> Iterator[tuple[str, Json]]:
    """The paths that one source has of its own -> OpenAPI path items."""
    base = source.path
    for path in (base, *(base + path for path in source.native_paths), *source.native_paths, base + TOKEN_PATH):
        with_token = path.endswith(TOKEN_PATH)
        yield (
            path,
            {
                "post": pushed(source, "post", path, responses, with_token=with_token),
                "put": pushed(source, "put", path, responses, with_token=with_token),
                "get": tried(source, path),
            },
        )


def pushed(source: Source, method: str, path: str, responses: Json, *, with_token: bool) -> Json:
    """The path item of a source's `/v1/sources/{name}`."""
    extra = [ONLY_WITH_TOKEN.format(name=source.name)] if with_token else []
    return {
        "operationId": operation_id(method, path),
        "summary": f"{source.title}: {'log lines' if source.read_line else 'telemetry'} as it pushes it",
        "description": " ".join([*extra, f"On an answer that is not 2xx: {source.retries}"]),
        "tags": ["AI gateways"],
        "x-scope": INGEST_SCOPE,
        "x-ways-in": [scheme for way in source.ways_in for scheme in SCHEMES[way]] + ["queryToken"],
        "parameters": [*path_parameters(path), {"$ref": "#/components/parameters/ContentEncoding"}],
        "requestBody": {
            "required": True,
            "description": "JSON, an array of it, or one document a line, whatever the Content-Type; OTLP too.",
            "content": {"application/json": {"schema": {}}, "application/x-protobuf": {"schema": {}}},
        },
        "responses": responses,
    }


def tried(source: Source, path: str) -> Json:
    """The ownership test that some products make before they push."""
    handshake = {"application/json": {"schema": {"$ref": "#/components/schemas/Handshake"}}}
    refused = {"description": "It is not set.", "content": responses_any()}
    return {
        "operationId": operation_id("get", path),
        "summary": f"{source.title}: tries the address",
        "description": ONLY_WITH_VERIFY.format(name=source.name),
        "tags": ["AI gateways"],
        "x-open": "everywhere",
        "parameters": path_parameters(path),
        "responses": {"200": {"description": "It is here.", "content": handshake}, "405": refused},
    }


def responses_any() -> Json:
    names = ("Error", "FirehoseAnswer", "LangfuseError")
    return {"application/json": {"schema": {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in names]}}}


def otlp_paths(prefix: str, title: str, otlp: Json, parameters: list[Json]) -> Iterator[tuple[str, Json]]:
    """The OTLP paths below a source's own -> OpenAPI path items."""
    for signal in SIGNALS:
        path, plain = f"{prefix}/v1/{signal}", otlp[f"/v1/{signal}"]["post"]
        extra = {
            "tags": ["AI gateways"],
            "summary": f"{title}, {plain['summary'].lower()}",
            "description": "Takes a key in every place where the source's own address does.",
            "parameters": [*parameters, *plain["parameters"]],
        }
        yield path, {way: {**plain, **extra, "operationId": operation_id(way, path)} for way in ("post", "put")}


def forwarded_otlp_paths(otlp: Json) -> Json:
    """OTLP on the service's own path, as other gateways forward it."""
    return {
        f"{FORWARDED}/v1/{signal}": {
            "post": {
                **otlp[f"/v1/{signal}"]["post"],
                "tags": ["Forwarded"],
                "summary": "OTLP on the service's own path: of another gateway, or of any exporter",
                "operationId": operation_id("post", f"{FORWARDED}/v1/{signal}"),
            }
        }
        for signal in SIGNALS
    }


def path_parameters(path: str) -> list[Json]:
    return [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in re.findall(r"\{(\w+)\}", path)]


def operation_id(method: str, path: str) -> str:
    """`put_v1_sources_litellm`: the same for the same operation, whatever else there is."""
    return f"{method}{re.sub('[^a-z0-9]+', '_', path.lower())}".rstrip("_")
