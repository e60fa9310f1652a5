"""Assistants and libraries that send OTLP by themselves: what an operator pastes into each.

`python -m tests.clients recipes` executes each of them as it is printed: its commands install, its
settings are the environment, its files are in the home folder, its code is in the program.
"""

from typing import NamedTuple


class Paste(NamedTuple):
    """One piece of what an operator pastes.

    `{url}` stands for the gateway's HTTP address, `{grpc}` for `host:port` of its gRPC listener,
    `{key}` for the inbound key.
    """

    language: str
    """For the fence in the docs: `console` (commands: what installs, what starts a program), `sh`
    (settings of the environment), `toml`, `json`, `python`, `javascript`."""
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
    """The oldest versions that were run or whose payloads were read, and what else it needs."""
    pastes: tuple[Paste, ...]
    unreported: str = ""
    """What it does not report, and what reports it; empty where it reports all."""


_ENDPOINT = """\
export OTEL_EXPORTER_OTLP_ENDPOINT="{url}"
export OTEL_EXPORTER_OTLP_HEADERS="x-api-key={key}"
"""

_PYTHON_SDK = Paste(
    "python",
    """\
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
""",
)

OTLP_SENDERS: dict[str, OtlpSender] = {
    sender.name: sender
    for sender in (
        OtlpSender(
            "claude-code",
            "Claude Code",
            run_with="@anthropic-ai/claude-code 2.1.330",
            needs="2.1.221 or later; without OTEL_EXPORTER_OTLP_PROTOCOL it sends nothing",
            unreported="thinking tokens separate from the output, the provider's response id",
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
            needs="0.61.0 or later",
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
            "codex",
            "Codex",
            run_with="@openai/codex 0.169.0",
            needs="0.169.0 or later, with exporters of logs or spans: metrics alone hold no calls",
            unreported="the model that answered, the provider's response id",
            pastes=(
                Paste(
                    "toml",
                    "[otel]\n"
                    'exporter = { otlp-http = { endpoint = "{url}/v1/logs", protocol = "binary",'
                    ' headers = { "x-api-key" = "{key}" } } }\n'
                    'trace_exporter = { otlp-http = { endpoint = "{url}/v1/traces", protocol = "binary",'
                    ' headers = { "x-api-key" = "{key}" } } }\n'
                    'metrics_exporter = { otlp-http = { endpoint = "{url}/v1/metrics", protocol = "binary",'
                    ' headers = { "x-api-key" = "{key}" } } }\n',
                    file=".codex/config.toml",
                ),
            ),
        ),
        OtlpSender(
            "qwen-code",
            "Qwen Code",
            run_with="@qwen-code/qwen-code 0.24.4",
            needs="0.24.4 or later",
            pastes=(
                Paste("sh", 'export OTEL_EXPORTER_OTLP_HEADERS="x-api-key={key}"\n'),
                Paste(
                    "json",
                    '{\n  "telemetry": {\n    "enabled": true,\n    "target": "local",\n'
                    '    "otlpEndpoint": "{url}",\n    "otlpProtocol": "http",\n    "logPrompts": false\n  }\n}\n',
                    file=".qwen/settings.json",
                ),
            ),
        ),
        OtlpSender(
            "copilot-cli",
            "GitHub Copilot CLI",
            run_with="@github/copilot 1.0.102",
            needs="1.0.102 or later",
            unreported="the provider behind it (the field says `github`, for which the price list has no price), the model that answered",
            pastes=(Paste("sh", _ENDPOINT),),
        ),
        OtlpSender(
            "python",
            "Python program that uses openai or anthropic, unchanged",
            run_with="opentelemetry-distro 0.66b2, openinference-instrumentation-openai 0.1.66, openai 3.54.0",
            needs="openinference-instrumentation-openai 0.1.66 or later",
            pastes=(
                Paste(
                    "console",
                    "pip install opentelemetry-distro opentelemetry-exporter-otlp"
                    " openinference-instrumentation-openai openinference-instrumentation-anthropic\n",
                ),
                Paste(
                    "sh",
                    'export OTEL_SERVICE_NAME="checkout-bot"\n'
                    + _ENDPOINT
                    + 'export OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"\n',
                ),
                Paste("console", "opentelemetry-instrument python program.py\n"),
            ),
        ),
        OtlpSender(
            "logfire",
            "Logfire",
            run_with="logfire 5.2.0, openai 3.54.0, anthropic 2.12.0",
            needs="logfire 5.2.0 or later, with `gen_ai.usage.raw` for cache and reasoning tokens",
            unreported="the model that answered, of OpenAI's streams",
            pastes=(
                Paste("console", "pip install logfire\n"),
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
            needs="openlit 1.45.0 or later",
            unreported="reasoning tokens of OpenAI's chat completions and of Anthropic's messages; that Anthropic keeps a cache write for an hour, which costs more",
            pastes=(
                Paste("console", "pip install openlit\n"),
                Paste("sh", _ENDPOINT),
                Paste("python", 'import openlit\n\nopenlit.init(application_name="checkout-bot")\n'),
            ),
        ),
        OtlpSender(
            "vercel-ai",
            "Vercel AI SDK, up to version 6",
            run_with="ai 5.0.277, @ai-sdk/openai 2.0.131, @ai-sdk/anthropic 2.0.112, @opentelemetry/sdk-node 0.301.0",
            needs='ai 4.3.19 or later; in 4 `createOpenAI` with `compatibility: "strict"`',
            unreported="in version 4, Anthropic's thinking tokens. In version 5, the cached and reasoning tokens of OpenAI's answers that are not streamed. In both, that Anthropic keeps a cache write for an hour, which costs more",
            pastes=(
                Paste("console", "npm install @opentelemetry/sdk-node\n"),
                Paste("sh", _ENDPOINT),
                Paste(
                    "javascript",
                    'import { NodeSDK } from "@opentelemetry/sdk-node";\n\nconst sdk = new NodeSDK();\nsdk.start();\n',
                ),
            ),
        ),
        OtlpSender(
            "vercel-ai-7",
            "Vercel AI SDK, from version 7",
            run_with="ai 7.0.173, @ai-sdk/otel 1.0.173, @opentelemetry/sdk-node 0.301.0",
            needs="ai 7.0.173 or later with @ai-sdk/otel, and Node 22",
            unreported="reasoning tokens separate from the output; that Anthropic keeps a cache write for an hour, which costs more",
            pastes=(
                Paste("console", "npm install @ai-sdk/otel @opentelemetry/sdk-node\n"),
                Paste("sh", _ENDPOINT),
                Paste(
                    "javascript",
                    'import { NodeSDK } from "@opentelemetry/sdk-node";\n'
                    'import { registerTelemetry } from "ai";\n'
                    'import { OpenTelemetry } from "@ai-sdk/otel";\n\n'
                    "const sdk = new NodeSDK();\n"
                    "sdk.start();\n"
                    "registerTelemetry(new OpenTelemetry());\n",
                ),
            ),
        ),
        OtlpSender(
            "genkit",
            "Genkit",
            run_with="genkit 1.42.0, @genkit-ai/compat-oai 1.42.0, @opentelemetry/exporter-trace-otlp-proto 0.52.1",
            needs="genkit 1.42.0 or later, and the OTLP exporter of the generation that it uses",
            pastes=(
                Paste(
                    "console",
                    "npm install @opentelemetry/exporter-trace-otlp-proto@0.52.1 @opentelemetry/sdk-trace-base@1.25.1\n",
                ),
                Paste("sh", _ENDPOINT),
                Paste(
                    "javascript",
                    'import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";\n'
                    'import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";\n'
                    'import { enableTelemetry, flushTracing } from "genkit/tracing";\n\n'
                    "await enableTelemetry({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });\n",
                ),
            ),
        ),
        OtlpSender(
            "mastra",
            "Mastra",
            run_with="@mastra/core 1.71.0, @mastra/observability 1.17.9, @mastra/otel-exporter 1.4.0",
            needs="@mastra/core 1.71.0 or later, with @opentelemetry/exporter-trace-otlp-proto",
            unreported="that Anthropic keeps a cache write for an hour, which costs more",
            pastes=(
                Paste(
                    "console",
                    "npm install @mastra/observability @mastra/otel-exporter @opentelemetry/exporter-trace-otlp-proto\n",
                ),
                Paste("sh", 'export OTEL_EXPORTER_OTLP_ENDPOINT="{url}"\nexport TELEMETRY_KEY="{key}"\n'),
                Paste(
                    "javascript",
                    'import { Observability } from "@mastra/observability";\n'
                    'import { OtelExporter } from "@mastra/otel-exporter";\n\n'
                    "const otel = new OtelExporter({\n"
                    "  provider: {\n"
                    "    custom: {\n"
                    '      endpoint: process.env.OTEL_EXPORTER_OTLP_ENDPOINT + "/v1/traces",\n'
                    '      headers: { "x-api-key": process.env.TELEMETRY_KEY },\n'
                    "    },\n"
                    "  },\n"
                    "});\n"
                    "const observability = new Observability({"
                    ' configs: { otel: { serviceName: "checkout-bot", exporters: [otel] } } });\n'
                    "const mastra = new Mastra({ agents, observability });\n",
                ),
            ),
        ),
        OtlpSender(
            "google-adk",
            "Google Agent Development Kit",
            run_with="google-adk 2.13.0, opentelemetry-sdk 1.44.0",
            needs="google-adk 2.13.0 or later",
            unreported="the model that answered",
            pastes=(
                Paste("console", "pip install opentelemetry-exporter-otlp-proto-http\n"),
                Paste("sh", _ENDPOINT),
                _PYTHON_SDK,
            ),
        ),
        OtlpSender(
            "agno",
            "Agno",
            run_with="agno 3.1.10, openinference-instrumentation-agno 1.0.15",
            needs="agno 3.1.10 with openinference-instrumentation-agno 1.0.15, or later",
            unreported="reasoning tokens, the model that answered. Anthropic's own SDK also reports both, and the two reports of a call become one record",
            pastes=(
                Paste(
                    "console", "pip install openinference-instrumentation-agno opentelemetry-exporter-otlp-proto-http\n"
                ),
                Paste("sh", _ENDPOINT),
                _PYTHON_SDK,
                Paste(
                    "python",
                    "from openinference.instrumentation.agno import AgnoInstrumentor\n\nAgnoInstrumentor().instrument()\n",
                ),
            ),
        ),
        OtlpSender(
            "botocore",
            "Amazon Bedrock through boto3",
            run_with="boto3 1.44.5, opentelemetry-instrumentation-botocore 0.66b2",
            needs="opentelemetry-instrumentation-botocore 0.66b2 or later",
            pastes=(
                Paste(
                    "console",
                    "pip install opentelemetry-instrumentation-botocore opentelemetry-exporter-otlp-proto-http\n",
                ),
                Paste("sh", _ENDPOINT),
                _PYTHON_SDK,
                Paste(
                    "python",
                    "from opentelemetry.instrumentation.botocore import BotocoreInstrumentor\n\nBotocoreInstrumentor().instrument()\n",
                ),
            ),
        ),
        OtlpSender(
            "traceloop",
            "Traceloop (OpenLLMetry)",
            run_with="traceloop-sdk 0.62.4, openai 3.54.0, anthropic 2.12.0",
            needs="traceloop-sdk 0.62.4 or later; of OpenLLMetry's openai instrumentation 0.38.12 or later",
            unreported="reasoning tokens of OpenAI's chat streams",
            pastes=(
                Paste("console", "pip install traceloop-sdk httpx\n"),
                Paste(
                    "sh",
                    'export TRACELOOP_BASE_URL="{url}"\n'
                    'export TRACELOOP_HEADERS="x-api-key={key}"\n'
                    'export TRACELOOP_TELEMETRY="false"\n',
                ),
                Paste(
                    "python",
                    "from traceloop.sdk import Traceloop\n\n"
                    'Traceloop.init(app_name="checkout-bot", disable_batch=True)\n',
                ),
            ),
        ),
        OtlpSender(
            "openinference",
            "OpenInference",
            run_with="openinference-instrumentation-openai 0.1.66, openinference-instrumentation-anthropic 3.1.0",
            needs="openinference-instrumentation-openai 0.1.66 or later",
            pastes=(
                Paste(
                    "console",
                    "pip install openinference-instrumentation-openai openinference-instrumentation-anthropic opentelemetry-exporter-otlp-proto-http\n",
                ),
                Paste("sh", _ENDPOINT),
                _PYTHON_SDK,
                Paste(
                    "python",
                    "from openinference.instrumentation.anthropic import AnthropicInstrumentor\n"
                    "from openinference.instrumentation.openai import OpenAIInstrumentor\n\n"
                    "OpenAIInstrumentor().instrument()\n"
                    "AnthropicInstrumentor().instrument()\n",
                ),
            ),
        ),
        OtlpSender(
            "phoenix",
            "Phoenix",
            run_with="arize-phoenix-otel 0.17.2, openinference-instrumentation-openai 0.1.66",
            needs="arize-phoenix-otel 0.17.2 or later",
            pastes=(
                Paste("console", "pip install arize-phoenix-otel openinference-instrumentation-openai\n"),
                Paste(
                    "sh",
                    'export PHOENIX_COLLECTOR_ENDPOINT="http://{grpc}"\nexport PHOENIX_API_KEY="{key}"\n',
                ),
                Paste(
                    "python",
                    "from phoenix.otel import register\n\nprovider = register(auto_instrument=True, batch=True)\n",
                ),
            ),
        ),
        OtlpSender(
            "pydantic-ai",
            "Pydantic AI",
            run_with="pydantic-ai-slim 2.68.0, openai 3.54.0, anthropic 2.12.0",
            needs="pydantic-ai-slim 2.68.0 or later",
            pastes=(
                Paste("console", "pip install opentelemetry-exporter-otlp-proto-http\n"),
                Paste("sh", _ENDPOINT),
                _PYTHON_SDK,
                Paste("python", "from pydantic_ai import Agent\n\nAgent.instrument_all()\n"),
            ),
        ),
        OtlpSender(
            "opentelemetry",
            "OpenTelemetry SDK and its own GenAI instrumentations",
            run_with="opentelemetry-sdk 1.45.2, opentelemetry-instrumentation-openai-v2 2.4b0, openai 3.54.0",
            needs="opentelemetry-instrumentation-openai-v2 2.4b0 or later, with opentelemetry-util-genai 1.1b0: 1.3b0, which it accepts, makes it silent",
            unreported="cached tokens (so they are priced in full), reasoning tokens, calls of the Responses API. `telemetry-gateway sources python` prints a recipe that reports all of them",
            pastes=(
                Paste(
                    "console",
                    "pip install opentelemetry-instrumentation-openai-v2 opentelemetry-util-genai==1.1b0 httpx opentelemetry-exporter-otlp-proto-http\n",
                ),
                Paste("sh", _ENDPOINT + 'export OTEL_SEMCONV_STABILITY_OPT_IN="gen_ai_latest_experimental"\n'),
                _PYTHON_SDK,
                Paste(
                    "python",
                    "from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor\n\n"
                    "OpenAIInstrumentor().instrument()\n",
                ),
            ),
        ),
        OtlpSender(
            "collector",
            "OpenTelemetry Collector",
            run_with="otlphttpexporter 0.162.0, otlpexporter 0.162.0",
            needs="Collector 0.162.0 or later",
            pastes=(
                Paste(
                    "yaml",
                    "exporters:\n"
                    "  otlphttp:\n"
                    '    endpoint: "{url}"\n'
                    '    headers: {"x-api-key": "{key}"}\n'
                    "  otlp:  # the same over gRPC\n"
                    '    endpoint: "{grpc}"\n'
                    '    headers: {"x-api-key": "{key}"}\n'
                    "    tls: {insecure: true}\n",
                ),
            ),
        ),
    )
}
"""In the order of the docs."""
