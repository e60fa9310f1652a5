"""Assistants and libraries that send OTLP by themselves: what an operator pastes into each.

`tests/clients/live.py` runs each of them with these very snippets: their shell settings are its
environment, their files lie in its home, and the program that it starts holds their code.
"""

from typing import NamedTuple


class Paste(NamedTuple):
    """One piece of what an operator pastes.

    `{url}` stands for the gateway's HTTP address, `{grpc}` for `host:port` of its gRPC listener,
    `{key}` for the inbound key.
    """

    language: str
    """For the fence in the docs: `sh` (settings of the environment), `toml`, `json`, `python`,
    `javascript`."""
    text: str
    file: str = ""
    """Where it belongs, from the home folder; empty for the shell and for a program."""

    def addressed(self, *, url: str, grpc: str, key: str) -> str:
        """The text with these in place of the placeholders."""
        return self.text.replace("{url}", url).replace("{grpc}", grpc).replace("{key}", key)


class OtlpSender(NamedTuple):
    name: str
    """In `telemetry-gateway sources NAME` and in the docs: lower case, dashes."""
    title: str
    """The product's name as people write it."""
    run_with: str
    """The versions that the snippets were run with."""
    needs: str
    """The oldest versions that are known to report usage, and what is missing below them."""
    pastes: tuple[Paste, ...]


_ENDPOINT = """\
export OTEL_EXPORTER_OTLP_ENDPOINT="{url}"
export OTEL_EXPORTER_OTLP_HEADERS="x-api-key={key}"
"""

OTLP_SENDERS: dict[str, OtlpSender] = {
    sender.name: sender
    for sender in (
        OtlpSender(
            "claude-code",
            "Claude Code",
            run_with="@anthropic-ai/claude-code 2.1.330",
            needs="any with the event `api_request`; without OTEL_EXPORTER_OTLP_PROTOCOL it sends nothing",
            pastes=(
                Paste(
                    "sh",
                    "export CLAUDE_CODE_ENABLE_TELEMETRY=1\n"
                    'export OTEL_LOGS_EXPORTER="otlp"\n'
                    'export OTEL_METRICS_EXPORTER="otlp"\n'
                    'export OTEL_EXPORTER_OTLP_PROTOCOL="grpc"\n'
                    'export OTEL_EXPORTER_OTLP_ENDPOINT="http://{grpc}"\n'
                    'export OTEL_EXPORTER_OTLP_HEADERS="x-api-key={key}"\n',
                ),
            ),
        ),
        OtlpSender(
            "gemini-cli",
            "Gemini CLI",
            run_with="@google/gemini-cli 0.61.0",
            needs="any with the event `gemini_cli.api_response`",
            pastes=(
                Paste(
                    "sh",
                    'export GEMINI_TELEMETRY_ENABLED="true"\n'
                    'export GEMINI_TELEMETRY_TARGET="local"\n'
                    'export GEMINI_TELEMETRY_OTLP_ENDPOINT="http://{grpc}"\n'
                    'export OTEL_EXPORTER_OTLP_HEADERS="x-api-key={key}"\n',
                ),
            ),
        ),
        OtlpSender(
            "logfire",
            "Logfire",
            run_with="logfire 5.2.0, openai 3.54.0, anthropic 2.12.0",
            needs="logfire with `gen_ai.usage.raw` for cache and reasoning tokens",
            pastes=(
                Paste("sh", _ENDPOINT),
                Paste(
                    "python",
                    "import logfire\n\n"
                    'logfire.configure(send_to_logfire=False, service_name="checkout-bot")\n'
                    "logfire.instrument_openai()\n"
                    "logfire.instrument_anthropic()\n",
                ),
            ),
        ),
        OtlpSender(
            "openlit",
            "OpenLIT",
            run_with="openlit 1.45.0, openai 2.54.0, anthropic 0.125.0",
            needs="openlit 1.30",
            pastes=(
                Paste("sh", _ENDPOINT),
                Paste("python", 'import openlit\n\nopenlit.init(application_name="checkout-bot")\n'),
            ),
        ),
    )
}
"""In the order of the docs."""
