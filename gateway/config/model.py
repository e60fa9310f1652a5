"""What an operator sets: the whole configuration, frozen, with its defaults.

`load_config` reads it from YAML, environment and flags, and states all faults at once before
anything is opened (`gateway.config.loader`). `docs/configuration.md` lists every option.
"""

import re
import socket
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from platformdirs import user_state_path
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from exporters.cost_service.preset import preset_with
from exporters.secret import Secret
from gateway.access.operators import OperatorRole, Operators
from gateway.access.record import PERSON_MAX_CHARS
from gateway.common.contract.auth_methods import SIGNATURES
from gateway.common.contract.currencies import known_currency
from gateway.common.contract.device_identity import ID_RULE, MAX_ID, is_device_id
from gateway.common.contract.scopes import CATALOGUE, INGEST_SCOPE, USE_CASES, Allowed, Fixed, Grant, Managed, decide
from gateway.common.contract.tags import MAX_TAGS
from gateway.common.contract.unit_cost import MAX_DIMENSIONS
from gateway.common.plugins import EXPORTERS_GROUP, load, plugins
from gateway.common.plural import plural
from gateway.common.suggestions import did_you_mean
from gateway.common.tls import TlsFiles
from gateway.config.options import Options
from gateway.config.origins import Origins
from gateway.config.profiles import Profile, with_profile
from gateway.config.sign_in import SignIn
from gateway.config.tags import check_tags
from gateway.config.values import (
    Address,
    AddressOption,
    DurationS,
    ProxyOption,
    SecretOption,
    SizeBytes,
    TcpAddress,
    parsed_url,
    word_for_off,
    word_for_switch,
)
from gateway.products.catalogue import SOURCES
from gateway.products.generic.mapping import fault_in
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.usage.budgets.addresses import WHAT, is_link_local
from gateway.usage.events.derived import SOURCES as DERIVED_FIELDS
from gateway.usage.events.derived import Measure
from gateway.usage.events.unit_cost import BadUnitCost, check_dimensions
from spool.record import DEVICES, OWN_LANES
from spool.unit_cost import Granularity

SCOPE_NAMES = frozenset(scope.name for scope in CATALOGUE)

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
GRPC_PORT = 4317
"""Of an OTLP/gRPC endpoint that names none."""
HOUR_S = 3600.0
DAY_S = 86400.0


class Listen(Options):
    http: AddressOption = TcpAddress("127.0.0.1", 4318)
    """OTLP/HTTP, gateway formats, events, devices."""
    grpc: AddressOption = TcpAddress("127.0.0.1", 4317)
    """OTLP/gRPC, health and reflection."""
    admin: AddressOption = TcpAddress("127.0.0.1", 4319)
    """Status page, admin API, /metrics, /healthz, /readyz."""
    service: AddressOption = TcpAddress("127.0.0.1", 4320)
    """The embedded local service; unused when `upstream` is set."""


class TlsOptions(Options):
    """TLS of one listener; its files are read again when they change."""

    cert_file: Path
    """PEM: the certificate, and behind it those that lead to its authority."""
    key_file: Path
    """PEM, not encrypted."""
    client_ca_file: Path | None = None
    """PEM: the authorities of clients. With it every client must show a certificate of theirs."""
    clients: Literal["check", "admit"] = "check"
    """`admit`: the subject of a client's certificate is the name of its API key, where it shows
    none."""

    @model_validator(mode="after")
    def who_is_admitted_is_checked(self) -> Self:
        if self.clients == "admit" and self.client_ca_file is None:
            raise ValueError("clients: admit needs client_ca_file: without it no client shows a certificate")
        return self

    def files(self, option: str) -> TlsFiles:
        """*option*: the group's, such as `tls.http`."""
        return TlsFiles(option, self.cert_file, self.key_file, self.client_ca_file)


class Tls(Options):
    """Without a group, a listener speaks no TLS."""

    http: TlsOptions | None = None
    grpc: TlsOptions | None = None
    admin: TlsOptions | None = None
    service: TlsOptions | None = None

    @field_validator("admin", "service")
    @classmethod
    def names_of_senders_alone(cls, value: TlsOptions | None) -> TlsOptions | None:
        if value is not None and value.clients == "admit":
            raise ValueError("clients: admit is for senders; others show their token or key")
        return value

    def groups(self) -> dict[str, TlsOptions]:
        """Listener -> its options, of those with TLS."""
        found = {"http": self.http, "grpc": self.grpc, "admin": self.admin, "service": self.service}
        return {name: options for name, options in found.items() if options is not None}


class Http(Options):
    """How the HTTP receiver behaves."""

    base_path: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*/?$")
    """Before every path of senders: `/otlp` serves `/otlp/v1/traces`."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may post here, such as `https://app.example`; `*` for all."""


class Limits(Options):
    max_body_bytes: SizeBytes = Field(default=64 * MIB, ge=KIB)
    """Of one request, on the wire."""
    max_decompressed_bytes: SizeBytes = Field(default=64 * MIB, ge=KIB)
    """Of one request, after decompression."""
    max_in_flight_bytes: SizeBytes = Field(default=256 * MIB, ge=KIB)
    """Of all requests that have no answer yet."""
    max_items: int = Field(default=DEFAULT_LIMITS.max_items, ge=1000)
    """Of one request: spans, log records, data points or rows, and the resources, scopes and
    metrics around them."""
    max_attributes: int = Field(default=DEFAULT_LIMITS.max_attributes, ge=128)
    """Of one span, log record or data point, with those of its events and what is nested in them:
    one that has more is rejected. Of a resource: then the request is."""
    max_json_values: int = Field(default=DEFAULT_LIMITS.max_json_values, ge=10_000)
    """Of one request in JSON: objects, arrays and commas outside texts."""
    max_series: int = Field(default=DEFAULT_LIMITS.max_series, ge=100)
    """Of metrics, that one request names."""
    max_source_series: int = Field(default=200_000, ge=1000)
    """New series of metrics that one sender brings within `counting.window`."""
    body_timeout_s: DurationS = Field(default=60.0, alias="body_timeout", gt=0)
    max_connections: int = Field(default=8000, ge=10)
    """Of senders at once, over HTTP and over gRPC each; a further one is refused."""

    @property
    def of_parsing(self) -> ParseLimits:
        """What one payload may hold."""
        return ParseLimits(self.max_items, self.max_attributes, self.max_json_values, self.max_series)

    @model_validator(mode="after")
    def one_request_fits(self) -> Self:
        if self.max_in_flight_bytes < max(self.max_body_bytes, self.max_decompressed_bytes):
            raise ValueError("max_in_flight_bytes must not be smaller than the limits of one request")
        return self


class Preference(Options):
    """Which reports of one service are billed."""

    service: str = Field(min_length=1)
    """As `service.name` has it."""
    prefer: Literal["metrics"]
    """Its aggregates are billed, its calls are suppressed; without a preference
    it is the other way round."""


class Counting(Options):
    settle_s: DurationS = Field(default=10.0, alias="settle")
    """How long a record waits for late evidence before it may be sent; 0s sends at once."""
    metrics_settle_s: DurationS = Field(default=120.0, alias="metrics_settle")
    """The same for aggregates from metrics."""
    window_s: DurationS = Field(default=600.0, alias="window")
    """How long reports are remembered, to be compared with later ones."""
    max_keys: int = Field(default=1_000_000, ge=1000)
    """Report keys remembered at most; the oldest go first, counted."""
    prefer: tuple[Preference, ...] = ()
    """Services that are billed by their metrics, because their spans are sampled or lost."""


class Attributes(Options):
    user: Literal["keep", "hash", "drop"] = "keep"


class Pricing(Options):
    price_list: Annotated[Literal["on", "off"], BeforeValidator(word_for_switch)] = "on"
    """`off`: calls without a price of your own are left to the next gateway, and the
    price list is not loaded."""
    file: Path | None = None
    """YAML with aliases and prices of your own, which win over the price list;
    read again when it changes."""


class Recommend(Options):
    least_saving: Decimal = Field(default=Decimal(10), ge=0)
    """Of a recommendation, in a month and in the currency of its prices: a smaller one is not
    made."""


class Devices(Options):
    enroll: Annotated[Literal["explicit", "off"], BeforeValidator(word_for_off)] = "explicit"
    """`explicit`: a device that telemetry names is enrolled. `off`: only one
    that is posted to `/v1/devices`."""
    max_new_per_hour: int = Field(default=1000, ge=0)
    heartbeat_interval_s: DurationS = Field(default=60.0, alias="heartbeat_interval", ge=1, le=3600)
    """Between a device's heartbeats to the service, where it asks for no other."""
    enroll_per_s: float = Field(default=10.0, gt=0, le=1000)
    """Enrolments to the service, as the mean of a fleet that starts at once."""
    enroll_burst: int = Field(default=50, ge=1, le=10_000)
    """Enrolments that may go out at once after a while without any."""
    gate: Literal["none", "hold"] = "none"
    """`hold`: telemetry waits, for 15 minutes at most, until the service knows the
    device that it comes from."""
    own_id: str | None = Field(default=None, max_length=MAX_ID)
    """Id of the device that the gateway is itself, such as the machine's serial number; else
    one that it made in its data directory."""

    @model_validator(mode="after")
    def who_is_held_is_enrolled(self) -> Self:
        if self.gate == "hold" and self.enroll == "off":
            raise ValueError(
                "gate: hold waits for enrolments, and with enroll: off telemetry brings none: set one of the two otherwise"
            )
        return self

    @field_validator("own_id")
    @classmethod
    def printable_id(cls, value: str | None) -> str | None:
        if value is not None and not is_device_id(value):
            raise ValueError(ID_RULE)
        return value


class Events(Options):
    route: Literal["auto", "event", "record", "both"] = "auto"
    """Where a usage event goes that does not state it: `auto` puts those with a stream and a
    value into the stream's total."""
    angle_brackets: Literal["refuse", "replace"] = "refuse"
    """What becomes of an event with < or > in a text, which the service would refuse."""


class UnitCost(Options):
    operation: Literal["replace", "sum"] = "replace"
    """How totals travel: whole, which no resend can distort, or as what came since, where
    several gateways send to one stream."""
    replicas: int = Field(default=1, ge=1)
    """How many gateways send to the same streams."""
    suffix: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    """After each stream's name at the service: gives each of several
    gateways streams of its own."""
    dimensions: tuple[str, ...] = ()
    """Dimensions without a prefix that the service knows besides those that are known here."""
    keep_totals_s: DurationS = Field(default=45 * DAY_S, alias="keep_totals", ge=45 * DAY_S)
    """How long a total is kept that nothing came to; what comes later
    to its bucket travels by `sum`."""
    max_streams: int = Field(default=1000, ge=1)
    max_records_per_s: int = Field(default=100, ge=1)
    """That are sent, on average; a burst may have 10000."""

    @model_validator(mode="after")
    def one_writer_a_stream(self) -> Self:
        if self.replicas > 1 and self.operation == "replace" and not self.suffix:
            raise ValueError(
                "with replicas above 1, totals that each gateway replaces would wipe the others': give each gateway a suffix"
                " of its own, or set operation: sum"
            )
        return self


class SpoolOptions(Options):
    max_bytes: SizeBytes = Field(default=8 * GIB, ge=MIB)
    """On disk; above it senders are asked to keep their data."""
    max_age_s: DurationS = Field(default=7 * DAY_S, alias="max_age", gt=0)
    """Pending records older than this expire, counted."""
    keep_delivered_s: DurationS = Field(default=DAY_S, alias="keep_delivered")
    """How long delivered records stay for comparison, look-up, and to be sent again."""
    keep_dead_letters_s: DurationS = Field(default=30 * DAY_S, alias="keep_dead_letters")
    """How long the records stay that the upstream refused for good."""
    max_dead_letter_bytes: SizeBytes = Field(default=512 * MIB)
    """Of their records; never more than a quarter of `max_bytes`. A new one then takes the place of
    the oldest, counted. Lowering either limit deletes none.
    """
    reserve_bytes: SizeBytes = Field(default=64 * MIB, ge=16 * MIB)
    """Held back on the disk for deliveries and deletions; new data is taken while a
    quarter of it is free besides."""


class Internal(Options):
    """Where the owner of a cell listens for its other gateways."""

    http: AddressOption = TcpAddress("127.0.0.1", 0)
    """Events, unit cost and devices, which the owner takes."""
    admin: AddressOption = TcpAddress("127.0.0.1", 0)
    """The page and the admin API."""

    @field_validator("http", "admin")
    @classmethod
    def over_tcp(cls, value: Address) -> Address:
        if not isinstance(value, TcpAddress):
            raise ValueError("host:port is needed: gateways of other machines connect there")  # noqa: TRY004 - pydantic's own way
        return value


class Store(Options):
    """Where everything is kept."""

    type: Literal["sqlite", "postgres"] = "sqlite"
    """`sqlite`: in files of `data_dir`, by one gateway. `postgres`: in a database that several
    gateways count in as one, a cell."""
    dsn: str = ""
    """libpq's: `host=db1,db2 dbname=telemetry user=gateway sslmode=verify-full`, or a URL;
    without a password."""
    password: SecretOption | None = Field(default=None, repr=False)
    cell: str = Field(default="default", pattern=r"^[a-z][a-z0-9_]{0,39}$")
    """The schema `cell_<name>` has it."""
    durability: Literal["quorum", "storage"] = "quorum"
    """`quorum`: a commit is on synchronous standbys when it is answered. `storage`: the storage
    below the database is replicated (Aurora, RDS Multi-AZ)."""
    lease_s: DurationS = Field(default=5.0, alias="lease", ge=1, le=60)
    """How long an owner that fell silent keeps the cell."""
    connections: int = Field(default=4, ge=1, le=64)
    """Of each gateway to the database, for what it takes, and as many for the rest."""
    secret: SecretOption | None = Field(default=None, repr=False)
    """The same on all gateways of the cell: tokens and keys of hashes in `data_dir` are made of it.
    None: the files are, and must be, the same."""
    internal: Internal = Internal()

    @model_validator(mode="after")
    def a_database_for_postgres(self) -> Self:
        if self.type == "postgres" and not self.dsn:
            raise ValueError("dsn: store.type postgres needs the address of a database")
        if self.type == "sqlite" and self.dsn:
            raise ValueError("dsn: it is used with store.type postgres alone")
        if re.search(r"password\s*=|://[^/@]*:[^/@]*@", self.dsn):
            raise ValueError("dsn: it is shown in the log; give its password by store.password")
        return self


class UpstreamKey(Options):
    """One key of the service we send to, and what it grants:
    exactly one of `managed` and `scopes`.
    """

    name: str = Field(min_length=1)
    secret: SecretOption = Field(repr=False)
    managed: tuple[str, ...] | None = None
    """Use cases, such as `send-ai-telemetry`."""
    scopes: tuple[str, ...] | None = None
    """Such as `events_v1:create_event`."""

    @field_validator("managed")
    @classmethod
    def known_use_cases(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return known(names, USE_CASES.keys(), "use case")

    @field_validator("scopes")
    @classmethod
    def known_scopes(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return known(names, SCOPE_NAMES, "scope")

    @model_validator(mode="after")
    def one_kind_of_grant(self) -> Self:
        if bool(self.managed) == bool(self.scopes):
            raise ValueError("needs exactly one of `managed` and `scopes`, with at least one entry")
        return self


class Upstream(Options):
    """The cost management service.

    Without this group the embedded local service takes its place.
    """

    base_url: str
    preset: Literal["document", "cloudzero"] = "document"
    encoding: Literal["records", "otlp"] = "records"
    """Of AI telemetry: the service's own JSON, or OTLP spans; preset `cloudzero` has `otlp`."""
    keys: tuple[UpstreamKey, ...]
    unused_lanes: tuple[str, ...] = ()
    """Lanes that are not wanted, such as `usage_events`: they are off, whatever the keys grant, and
    nothing warns of it. What senders post for one is kept, and reported as waiting."""
    sum_retry: Literal["park", "at_least_once"] = "park"
    """After an ambiguous 5xx on what the upstream cannot know as a repeat: set it aside as a
    dead letter, or send it again."""
    knows_event_ids: bool = False
    """Whether the upstream knows a repeated usage event by its `metadata.event_id`: then no
    event is ever set aside for that."""
    ca_file: Path | None = None
    """PEM of a private certificate authority."""
    proxy: ProxyOption = None
    names: dict[str, str] = Field(default_factory=dict)
    """Paths and header names that differ from the preset's."""

    @field_validator("base_url")
    @classmethod
    def secure_url(cls, value: str) -> str:
        url = parsed_url(value)
        if url.scheme != "https" and not (url.scheme == "http" and TcpAddress(url.host or "", 0).is_loopback):
            raise ValueError("must be an https URL; http only to loopback")
        if url.user or url.password or url.query_string or url.fragment:
            raise ValueError("must hold neither credentials nor a query")
        return value.rstrip("/")

    @field_validator("keys")
    @classmethod
    def at_least_one_key(cls, value: tuple[UpstreamKey, ...]) -> tuple[UpstreamKey, ...]:
        if not value:
            raise ValueError("needs at least one key")
        return value

    @field_validator("unused_lanes")
    @classmethod
    def known_lanes(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known(names, frozenset(OWN_LANES), "lane")
        if set(OWN_LANES) <= set(names):
            raise ValueError("names every lane: then nothing is sent; leave one out")
        return names

    @model_validator(mode="before")
    @classmethod
    def encoding_of_the_preset(cls, options: Any) -> Any:
        if isinstance(options, dict) and options.get("preset") == "cloudzero":
            return {"encoding": "otlp", **options}
        return options

    @model_validator(mode="after")
    def names_belong_to_a_preset(self) -> Self:
        preset_with(self.preset, self.names)
        return self

    @model_validator(mode="after")
    def key_names_differ(self) -> Self:
        names = [key.name for key in self.keys]
        if len(set(names)) < len(names):
            raise ValueError("two keys have the same name")
        return self


Paths = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""One path or several: `usage.prompt_tokens`."""
MAPPING_OPTIONS = ("items", "time", "event_id", "input_includes_cache", "fields_")
"""Of `sources.generic` alone."""


class SourceOptions(Options):
    """How one AI gateway of `/v1/sources/{name}` shows who it is, where it cannot send a key."""

    secret: SecretOption | None = Field(default=None, repr=False)
    """What it signs its requests with; those that are signed need no
    key, those that are not need one."""
    url_token: bool = False
    """Take the inbound key from the address too:
    `/v1/sources/{name}/token/{key}`, or `?token={key}`."""
    verify: str | None = Field(default=None, pattern=r"^[\x21-\x7e]{1,256}$")
    """Vercel's ownership proof: every answer of the source carries it as `x-vercel-verify`."""
    items: str = ""
    """Of `generic`: path of the list of calls in a document;
    empty where a document is one call."""
    time: Paths = ()
    """Of `generic`: where it stands when a call began."""
    event_id: Paths = ()
    """Of `generic`: what distinguishes one call from any other."""
    input_includes_cache: bool | None = None
    """Of `generic`: whether the input tokens hold those from the cache; without
    it, as the numbers prove."""
    fields_: dict[str, Paths] = Field(default_factory=dict, alias="fields")
    """Of `generic`: field of the record -> path, or several, of which
    the first with a value counts."""

    @field_validator("fields_")
    @classmethod
    def known_fields(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        fault = fault_in(value)
        if fault is not None:
            raise ValueError(fault)
        return value

    @property
    def mapping(self) -> dict[str, Any] | None:
        """What `gateway.products.generic` reads by, in plain types; None without one."""
        return self.model_dump(by_alias=True, include=set(MAPPING_OPTIONS)) if self.fields_ else None


class FileExporter(Options):
    type: Literal["file"]
    path: Path
    """Delivered records are appended here, as NDJSON."""


class ConsoleExporter(Options):
    type: Literal["console"]


class PluginExporter(Options):
    """A destination that another distribution adds (docs/plugins.md)."""

    type: Literal["plugin"]
    plugin: str
    """Name of its entry point in `ai_telemetry_gateway.exporters`."""
    options: dict[str, SecretOption] = Field(default_factory=dict, repr=False)
    """What it is set up with, as texts; masked wherever the configuration is shown."""

    @field_validator("plugin")
    @classmethod
    def installed_plugin(cls, value: str) -> str:
        found = plugins(EXPORTERS_GROUP)
        known((value,), found.keys(), "installed exporter plug-in")
        load(found[value])
        return value


class OtlpTarget(Options):
    """An endpoint that takes OTLP."""

    endpoint: str
    """Base URL, such as `https://collector.example:4318`; OTLP's own path follows. Of gRPC without
    a path: `https://collector.example:4317`."""
    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    headers: dict[str, SecretOption] = Field(default_factory=dict, repr=False)
    """Sent with every request, such as `Authorization: "Bearer ${env:TOKEN}"`."""
    compression: Literal["gzip", "none"] = "gzip"
    ca_file: Path | None = None
    """PEM of a private certificate authority."""
    proxy: ProxyOption = None
    timeout_s: DurationS = Field(default=60.0, alias="timeout", gt=0)
    """Of one request."""

    @model_validator(mode="after")
    def secrets_stay_secret(self) -> Self:
        url = parsed_url(self.endpoint)
        if url.scheme not in {"http", "https"}:
            raise ValueError("endpoint: must be an http or https URL")
        if url.user or url.password or url.query_string or url.fragment:
            raise ValueError("endpoint: must hold neither credentials nor a query; put credentials into headers")
        if self.headers and url.scheme == "http" and not TcpAddress(url.host or "", 0).is_loopback:
            raise ValueError(
                "endpoint: with headers it must be https, or http to loopback: they would travel in the clear"
            )
        return self

    @model_validator(mode="after")
    def what_grpc_has(self) -> Self:
        if self.protocol == "grpc" and parsed_url(self.endpoint).path not in {"", "/"}:
            raise ValueError("endpoint: a gRPC endpoint has no path: leave it out")
        if self.protocol == "grpc" and self.proxy is not None:
            raise ValueError("proxy: gRPC is sent without one: leave it out, or set protocol: http/protobuf")
        return self

    @field_validator("headers")
    @classmethod
    def sendable_headers(cls, value: dict[str, Secret]) -> dict[str, Secret]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise ValueError("a header's name must be a token, such as Authorization")
            if name.lower() in FRAMING_HEADERS:
                raise ValueError(f"{name.lower()} is set by the exporter itself")
            if not (text.reveal().isascii() and text.reveal().isprintable()):
                raise ValueError(f"{name}: must be printable ASCII on one line")
        return value


FRAMING_HEADERS = frozenset(
    {"content-type", "content-encoding", "content-length", "transfer-encoding", "connection", "host", "accept"}
)


class OtlpExporter(OtlpTarget):
    """A backend that takes OTLP: a Collector, an observability product, another gateway."""

    type: Literal["otlp"]


class Telemetry(OtlpTarget):
    """The gateway's own metrics and traces."""

    timeout_s: DurationS = Field(default=10.0, alias="timeout", gt=0)
    interval_s: DurationS = Field(default=60.0, alias="interval", ge=1)
    """Between two pushes."""
    sample_ratio: float = Field(default=0.0, ge=0, le=1)
    """Of the requests, the share that is traced; 0: no traces."""


class StreamExporter(Options):
    """A unit-cost stream that is made of the AI records."""

    type: Literal["stream"]
    stream: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}$")
    measure: Measure = "tokens"
    granularity: Granularity | None = None
    """`HOURLY` of an allocation stream and `DAILY` of a metric stream, unless set."""
    element: str | None = None
    """The field whose values are the elements of an allocation stream; without
    it the stream is a metric's."""
    dimensions: dict[str, str] = Field(default_factory=dict, max_length=MAX_DIMENSIONS)
    """Dimension -> field: `custom:Model: response_model`."""
    currency: Annotated[str, AfterValidator(known_currency)] = "USD"
    """Of `cost`: records in another one add nothing."""

    @model_validator(mode="after")
    def known_fields_and_dimensions(self) -> Self:
        fields = tuple(field for field in (self.element, *self.dimensions.values()) if field is not None)
        known(fields, DERIVED_FIELDS, "field")
        try:
            check_dimensions({name: ["x"] for name in self.dimensions}, frozenset())
        except BadUnitCost as error:
            raise ValueError(str(error)) from None
        if self.element is None and self.granularity == "HOURLY":
            raise ValueError("a metric stream has no hours: set element, or DAILY or MONTHLY")
        return self


class WebhookOptions(Options):
    """Where alerts of budgets are posted to."""

    url: SecretOption = Field(repr=False)
    """http or https; masked wherever the configuration is shown, since it may hold a token."""
    secret: SecretOption = Field(repr=False)
    """Signs each request: `whsec_` and base64, or a text of 24 characters or more."""
    link_local: bool = False
    """Whether it may be at a link-local address, as metadata services of clouds are."""

    @field_validator("url")
    @classmethod
    def plain_url(cls, value: Secret) -> Secret:
        url = parsed_url(value.reveal())
        if url.scheme not in {"http", "https"}:
            raise ValueError("must be an http or https URL")
        if url.user or url.password or url.fragment:
            raise ValueError("must hold neither credentials nor a fragment")
        return value

    @model_validator(mode="after")
    def reachable(self) -> Self:
        if not self.link_local and is_link_local(parsed_url(self.url.reveal()).host or ""):
            raise ValueError(f"url: is {WHAT}: set link_local: true where that is meant")
        return self


class BudgetOptions(Options):
    webhook: WebhookOptions | None = None
    """For every budget that names no other; None: they call none."""
    webhooks: dict[str, WebhookOptions] = Field(default_factory=dict)
    """Further ones by name, for budgets that name them."""


ExporterOptions = Annotated[
    FileExporter | ConsoleExporter | StreamExporter | OtlpExporter | PluginExporter, Field(discriminator="type")
]


class Billing(Options):
    """AI cost by day, as FOCUS drops to a billing connection of the upstream."""

    connection: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """Id of an established connection; the embedded service establishes it itself."""
    every_s: DurationS = Field(default=HOUR_S, alias="every", ge=1, le=DAY_S)
    """Between two looks for days whose usage changed."""
    close_after_s: DurationS = Field(default=HOUR_S, alias="close_after", ge=900, le=7 * DAY_S)
    """A UTC day is dropped so long after its end, and again whenever late usage is added to it."""
    since: date | None = None
    """The first day that is dropped unasked; None: that of the month in which the connection was
    named first."""
    beside_ai_telemetry: bool = False
    """Whether the upstream gets the AI records as well: it must not add up both."""


def with_email(value: object) -> object:
    """An operator may be written as the e-mail alone."""
    return {"email": value} if isinstance(value, str) else value


class Operator(Options):
    """A person who may work on the admin listener."""

    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=PERSON_MAX_CHARS)
    role: OperatorRole = "operator"
    """`viewer`: reads, and changes nothing."""


class OperatorIdentity(Options):
    """How a connection to the admin listener names the person behind it, beside the token."""

    certificate: bool = False
    """By the e-mail in the client's certificate, which `tls.admin.client_ca_file` asks for."""
    header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    """By a header that a proxy sets, such as `X-Forwarded-Email`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose header is believed; `unix`: those that may open the socket."""

    @field_validator("trusted_proxies")
    @classmethod
    def networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if each != "unix":
                ip_network(each, strict=False)
        return value

    @model_validator(mode="after")
    def a_header_of_someone(self) -> Self:
        if (self.header is None) != (not self.trusted_proxies):
            raise ValueError("header and trusted_proxies: each needs the other, for any client may send a header")
        return self


class Config(Options):
    profile: Profile = "server"
    """Whose defaults hold: `device` for a laptop or a node that forwards to another gateway
    (`gateway.config.profiles`)."""
    data_dir: Path = Field(default_factory=lambda: user_state_path("telemetry-gateway"))
    listen: Listen = Listen()
    tls: Tls = Tls()
    http: Http = Http()
    auth: Literal["keys", "none"] = "keys"
    operators: tuple[Annotated[Operator, BeforeValidator(with_email)], ...] = ()
    """Who may make and change keys, by e-mail; none: any name is taken."""
    operator_identity: OperatorIdentity = OperatorIdentity()
    sign_in: SignIn | None = None
    metrics_token: SecretOption | None = Field(default=None, repr=False)
    """What a scraper of /metrics shows; None: the text of the file `metrics-token`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level that is logged."""
    log_format: Literal["console", "json"] = "console"
    """`json`: one object a line, with `timestamp`, `level`, `event` and its fields."""
    workers: Annotated[Literal["auto", "off"], BeforeValidator(word_for_off)] = "auto"
    """`auto`: on two cores or more, a second process reads payloads. `off`: all in one."""
    limits: Limits = Limits()
    counting: Counting = Counting()
    attributes: Attributes = Attributes()
    tags: dict[str, tuple[str, ...]] = Field(default_factory=dict, max_length=MAX_TAGS)
    """Tag -> the attributes that have it, besides the label of that name; the first that has a
    value wins."""
    pricing: Pricing = Pricing()
    recommendations: Recommend = Recommend()
    devices: Devices = Devices()
    events: Events = Events()
    unit_cost: UnitCost = UnitCost()
    budgets: BudgetOptions = BudgetOptions()
    store: Store = Store()
    spool: SpoolOptions = SpoolOptions()
    upstream: Upstream | None = None
    sources: dict[str, SourceOptions] = Field(default_factory=dict)
    """Settings of AI gateways that push in shapes of their own, by the source's name."""
    exporters: dict[str, ExporterOptions] = Field(default_factory=dict)
    """Further destinations of the AI records, a lane each, by the lane's name."""
    telemetry: Telemetry | None = None
    """Where the gateway's own metrics and traces are pushed to; None: nowhere."""
    billing: Billing | None = None
    """Cost by day goes to a billing connection; None: nowhere."""
    mcp: Annotated[Literal["on", "off"], BeforeValidator(word_for_switch)] = "off"
    """`on`: the admin listener serves tools that read, for AI assistants, at `/mcp`."""
    _origins: Origins = PrivateAttr(default=Origins())

    @property
    def origins(self) -> Origins:
        """Where each value is from."""
        return self._origins

    def from_origins(self, origins: Origins) -> Self:
        """The same options, with *origins* as theirs."""
        copy = self.model_copy()
        copy._origins = origins  # noqa: SLF001 its own
        return copy

    @field_validator("tags")
    @classmethod
    def readable_tags(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        check_tags(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def defaults_of_the_profile(cls, options: Any) -> Any:
        return with_profile(options) if isinstance(options, dict) else options

    @model_validator(mode="after")
    def operators_are_known(self) -> Self:
        emails = [operator.email.casefold() for operator in self.operators]
        if len(set(emails)) < len(emails):
            raise ValueError("operators: an e-mail is listed twice")
        if emails and all(operator.role == "viewer" for operator in self.operators):
            raise ValueError("operators: one of them needs the role operator, or no one could change a key")
        if self.sign_in is not None and self.sign_in.groups_header and self.operator_identity.header is None:
            raise ValueError("sign_in.groups_header: operator_identity.header and its trusted_proxies are needed")
        if self.operator_identity.certificate and (self.tls.admin is None or self.tls.admin.client_ca_file is None):
            raise ValueError("operator_identity.certificate: tls.admin.client_ca_file is needed")
        return self

    @model_validator(mode="after")
    def a_device_forwards(self) -> Self:
        if self.profile == "device":
            if self.upstream is None:
                raise ValueError(
                    "upstream.base_url: the profile device needs the address of the gateway that it forwards to, and"
                    " upstream.keys a key of that one"
                )
            if self.unit_cost.operation == "replace" and not self.unit_cost.suffix:
                raise ValueError(
                    "unit_cost.operation: totals that each device replaces would wipe the others': leave it at sum, or give"
                    " this device a unit_cost.suffix of its own"
                )
        return self

    @model_validator(mode="after")
    def a_cell_forwards(self) -> Self:
        if self.store.type == "postgres":
            if self.upstream is None:
                raise ValueError(
                    "upstream.base_url: with store.type postgres there is no local service: name the upstream"
                )
            if self.profile == "device":
                raise ValueError("store.type: a device keeps its data in files; leave it at sqlite")
        return self

    @property
    def enrolls_devices(self) -> bool:
        """Whether the gateway and the devices that telemetry names are enrolled."""
        return self.devices.enroll != "off" and DEVICES not in self.unused_lanes

    @property
    def unused_lanes(self) -> tuple[str, ...]:
        return () if self.upstream is None else self.upstream.unused_lanes

    @model_validator(mode="after")
    def who_is_held_has_a_lane(self) -> Self:
        if self.devices.gate == "hold" and DEVICES in self.unused_lanes:
            raise ValueError(
                "devices.gate: hold waits for enrolments, and upstream.unused_lanes turns their lane off: set one of the two"
                " otherwise"
            )
        return self

    @model_validator(mode="after")
    def what_is_held_does_not_expire(self) -> Self:
        if self.devices.gate == "hold" and self.spool.max_age_s < HOUR_S:
            raise ValueError(
                "spool.max_age: with devices.gate: hold records wait for up to 16 minutes: give them 1h or more"
            )
        return self

    @model_validator(mode="after")
    def a_listener_has_an_address_of_its_own(self) -> Self:
        """Port 0 is another one each time."""
        owners: dict[Address, str] = {}
        for name, address in self.listeners().items():
            is_free = address is None or (isinstance(address, TcpAddress) and address.port == 0)
            if not is_free and owners.setdefault(address, name) != name:
                raise ValueError(f"listen.{name}: {address} is listen.{owners[address]} already; set another one")
        return self

    @model_validator(mode="after")
    def telemetry_goes_elsewhere(self) -> Self:
        """What the gateway sent to itself would be counted, and sent again."""
        if self.telemetry is not None:
            url = parsed_url(self.telemetry.endpoint)
            port = GRPC_PORT if self.telemetry.protocol == "grpc" and url.explicit_port is None else url.port or 0
            for name, address in self.listeners().items():
                if isinstance(address, TcpAddress) and is_at(address, url.host or "", port):
                    raise ValueError(
                        f"telemetry.endpoint: is this gateway's own listen.{name}: name a Collector or another backend"
                    )
        return self

    @model_validator(mode="after")
    def a_cost_is_billed_once(self) -> Self:
        if self.billing is None or self.upstream is None:
            return self
        if self.upstream.preset == "cloudzero":
            raise ValueError(
                "billing: preset cloudzero takes no FOCUS drops: leave billing out, or name another upstream"
            )
        grants = any(grants_scope(key, INGEST_SCOPE) for key in self.upstream.keys)
        if grants and not self.billing.beside_ai_telemetry:
            raise ValueError(
                "billing.connection: the upstream gets the AI records too, and would count the same calls twice: leave out"
                " the key of AI telemetry, or set billing.beside_ai_telemetry: true where it does not add up both"
            )
        return self

    @model_validator(mode="after")
    def the_lane_of_billing_is_free(self) -> Self:
        if self.billing is not None and "billing" in self.exporters:
            raise ValueError("exporters.billing: is the name of the lane of billing drops: choose another")
        return self

    def listeners(self) -> dict[str, Address]:
        """What is listened on; None for a listener that is off, as the embedded service is
        where there is an upstream.
        """
        service = self.listen.service if self.upstream is None else None
        return {"http": self.listen.http, "grpc": self.listen.grpc, "admin": self.listen.admin, "service": service}

    @field_validator("sources")
    @classmethod
    def known_sources(cls, value: dict[str, SourceOptions]) -> dict[str, SourceOptions]:
        known(tuple(value), SOURCES.keys(), "source")
        for name, options in value.items():
            if options.secret is not None and not SIGNATURES.keys() & set(SOURCES[name].ways_in):
                raise ValueError(f"{name}: does not sign its requests, so secret would check nothing: give it a key")
            taken = options.model_fields_set.intersection(MAPPING_OPTIONS)
            if taken and name != "generic":
                raise ValueError(
                    f"{name}: {min(taken).rstrip('_')} belongs to generic alone; {name} has a table of its own"
                )
            if taken and not options.fields_:
                raise ValueError(
                    "generic: needs fields, such as {request_model: model, input_tokens: usage.prompt_tokens}"
                )
        return value

    @field_validator("exporters")
    @classmethod
    def lanes_are_free(cls, value: dict[str, ExporterOptions]) -> dict[str, ExporterOptions]:
        if taken := sorted(set(value) & set(OWN_LANES)):
            raise ValueError(f"{taken[0]} is the name of one of the gateway's own lanes")
        streams = [options.stream for options in value.values() if isinstance(options, StreamExporter)]
        if twice := sorted({stream for stream in streams if streams.count(stream) > 1}):
            raise ValueError(
                f"stream {twice[0]} is made by two exporters: a record adds to a stream once; name another"
            )
        return value


def grants_scope(key: UpstreamKey, scope: str) -> bool:
    """Whether *key* grants *scope*, by the catalogue as it is now."""
    grant: Grant = Managed(frozenset(key.managed)) if key.managed else Fixed(frozenset(key.scopes or ()))
    return isinstance(decide(grant, scope), Allowed)


def is_at(listener: TcpAddress, host: str, port: int) -> bool:
    """Whether *listener*, of this machine, is reached by *host* and *port*, as far as the names
    tell.
    """
    here = TcpAddress(host, port)
    is_everywhere = listener.host in {"0.0.0.0", "::", ""}  # noqa: S104 - compared, not bound
    is_same = host == listener.host or (here.is_loopback and (listener.is_loopback or is_everywhere))
    own_names = {socket.gethostname(), socket.getfqdn()} if is_everywhere else set()
    return port == listener.port and port != 0 and (is_same or host in own_names)


def known(names: tuple[str, ...] | None, catalogue: AbstractSet[str], what: str) -> tuple[str, ...] | None:
    """The names as they are. Raises ValueError when *catalogue* lacks one."""
    for name in names or ():
        if name not in catalogue:
            raise ValueError(f"unknown {what} {name!r}{did_you_mean(name, catalogue)}")
    return names


def config_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, with each default as it would be written there."""
    schema = Config.model_json_schema()
    written = Config().model_dump(mode="json", by_alias=True, exclude={"data_dir"})
    for name, default in written.items():
        option = schema["properties"][name]
        if isinstance(default, dict) and "$ref" in option:
            del option["default"]
            group = schema["$defs"][option["$ref"].rpartition("/")[2]]
            for below, value in default.items():
                group["properties"][below]["default"] = value
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def refuse_open_intake(config: Config, enabled_keys: int) -> str | None:
    """Why the gateway must not start: senders from other machines could post without a key.

    None when it may.
    """
    if config.auth == "none" or enabled_keys > 0:
        return None
    exposed = [
        f"listen.{name} ({address})"
        for name, address in (("http", config.listen.http), ("grpc", config.listen.grpc))
        if address is not None and not address.is_loopback and not admits_by_certificate(config, name)
    ]
    internal = config.store.internal.http
    if config.store.type == "postgres" and internal is not None and not internal.is_loopback:
        exposed.append(f"store.internal.http ({internal})")  # the owner takes there what anybody sends
    if not exposed:
        return None
    return f"{' and '.join(exposed)} can be reached from other machines and no key is enabled: make one first (`telemetry-gateway keys create`), listen on loopback only, or write `auth: none` where all who reach it may post"


def admits_by_certificate(config: Config, listener: str) -> bool:
    """Whether a client of *listener* is known by its certificate."""
    options = config.tls.groups().get(listener)
    return options is not None and options.clients == "admit"


def operators_of(config: Config) -> Operators:
    return Operators({operator.email: operator.role for operator in config.operators})


def refuse_shared_totals(config: Config, replaced: Sequence[str]) -> str | None:
    """Why the gateway must not start: totals that one gateway replaces whole
    would be sent by several.

    *replaced*: names of the streams that were begun with operation
    `replace`. None when it may start.
    """
    options = config.unit_cost
    if options.replicas == 1 or options.suffix or not replaced:
        return None
    return (
        f"unit_cost.replicas is {options.replicas}, and {plural(len(replaced), 'stream was', 'streams were')} begun with operation: replace"
        f" ({', '.join(replaced[:5])}): their totals would wipe the other gateways'; set unit_cost.suffix, or"
        " begin with an empty data directory"
    )
