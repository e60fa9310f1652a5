"""The applications of the live runs: for each sender of the docs a program as its users have it."""

import json
import subprocess
from collections.abc import Mapping
from typing import Final

from tests.clients.applications import (
    Application,
    Outage,
    litellm_proxy,
    node_app,
    node_tool,
    python_app,
    stay_until_acknowledged,
)
from tests.clients.runs import SenderFailed
from tests.support.ports import free_port
from tests.support.truth import (
    any_call,
    of_anthropic,
    of_chat_stream,
    of_messages_or_chat,
    of_openai,
    of_openai_at_once,
    of_openai_stream,
    of_responses,
)

PROMPT: Final = "Which of the two is cheaper? CANARY-7Q-PROMPT"
GRPC: Final[Mapping[str, Mapping[str, str]]] = {"grpc": {}}
NODE_SDK: Final[Mapping[str, Mapping[str, str]]] = {
    "http/protobuf": {},
    "http/json": {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
    "grpc": {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://{grpc}"},
}
PYTHON_SDK: Final = {name: NODE_SDK[name] for name in ("http/protobuf", "grpc")}
OVER_HTTP: Final = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT": "{http}"}
CODEX_PROVIDER: Final = """\
model = "gpt-4.1-mini"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{provider}/v1"
env_key = "PROVIDER_KEY"
wire_api = "responses"

"""


def ask_claude_twice(process: subprocess.Popen[str], outage: Outage) -> None:
    ask_claude(process)
    outage.happen()
    ask_claude(process)


def ask_claude(process: subprocess.Popen[str]) -> None:
    message = {"type": "user", "message": {"role": "user", "content": PROMPT}}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "result":
            return
    raise SenderFailed("it ended before its answer")


CLAUDE: Final = ("claude-code", "@anthropic-ai/claude-code", "@anthropic-ai/claude-code-*/claude", "-p")
CLAUDE_CODE: Final = Application(
    "claude-code",
    node_tool(*CLAUDE, PROMPT),
    transports={"grpc": {}, "http/protobuf": OVER_HTTP},
    settings={
        "ANTHROPIC_BASE_URL": "{provider}",
        "ANTHROPIC_API_KEY": "sk-CANARY-7Q-KEY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    unstated={"reasoning": any_call},
)
CLAUDE_SESSION: Final = node_tool(
    *CLAUDE, "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"
)
APPLICATIONS: Mapping[str, Application] = {
    "claude-code": CLAUDE_CODE,
    "claude-code-killed": CLAUDE_CODE._replace(program=CLAUDE_SESSION, converse=ask_claude_twice, is_recipe=False),
    "gemini-cli": Application(
        "gemini-cli",
        node_tool("gemini-cli", "@google/gemini-cli", ".bin/gemini", "-m", "gemini-2.5-flash", "-p", PROMPT),
        transports=GRPC,
        settings={
            "GEMINI_API_KEY": "sk-CANARY-7Q-KEY",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": "{provider}",
        },
        files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
    ),
    "codex": Application(
        "codex",
        node_tool(
            "codex", "@openai/codex", "@openai/codex-*/vendor/*/bin/codex", "exec", "--skip-git-repo-check", PROMPT
        ),
        settings={"PROVIDER_KEY": "sk-CANARY-7Q-KEY"},
        files={".codex/config.toml": CODEX_PROVIDER},
        unstated={"model": any_call},
    ),
    "qwen-code": Application(
        "qwen-code",
        node_tool("qwen-code", "@qwen-code/qwen-code", ".bin/qwen", "--auth-type", "openai", "-p", PROMPT),
        settings={
            "OPENAI_API_KEY": "sk-CANARY-7Q-KEY",
            "OPENAI_BASE_URL": "{provider}/v1",
            "OPENAI_MODEL": "gpt-4o",
        },
    ),
    "copilot-cli": Application(
        "copilot-cli",
        node_tool("copilot-cli", "@github/copilot", "@github/copilot-*/copilot", "-p", PROMPT),
        settings={
            "COPILOT_PROVIDER_BASE_URL": "{provider}/v1",
            "COPILOT_PROVIDER_API_KEY": "sk-CANARY-7Q-KEY",
            "COPILOT_MODEL": "gpt-4o",
            "COPILOT_OFFLINE": "true",
        },
        unstated={"provider": any_call, "model": any_call},
    ),
    "adk": Application(
        "google-adk",
        python_app("adk", "google-adk"),
        settings={"GOOGLE_API_KEY": "sk-CANARY-7Q-KEY", "GOOGLE_GEMINI_BASE_URL": "{provider}"},
        unstated={"model": any_call},
    ),
    "agno": Application(
        "agno",
        python_app("agno", "agno", "openai", "anthropic"),
        unstated={"model": of_openai, "reasoning": of_openai},  # Anthropic's SDK reports its own calls besides
        who={"user": "user-7", "session": "session-7"},
    ),
    "bedrock": Application("botocore", python_app("bedrock", "boto3")),
    "genkit": Application("genkit", node_app("genkit", "genkit", "@genkit-ai/compat-oai")),
    "mastra": Application("mastra", node_app("mastra", "@mastra/core", "@ai-sdk/openai", "@ai-sdk/anthropic", "zod")),
    "vercel-ai-4": Application(
        "vercel-ai",
        node_app("vercel-ai-4", "ai@4", "@ai-sdk/openai@1", "@ai-sdk/anthropic@1", "zod@3"),
        transports=NODE_SDK,
        unstated={"reasoning": of_anthropic},
        who={"user": "user-7"},
    ),
    "vercel-ai-5": Application(
        "vercel-ai",
        node_app("vercel-ai-5", "ai@5", "@ai-sdk/openai@2", "@ai-sdk/anthropic@2", "zod"),
        transports=NODE_SDK,
        unstated={"cache_read": of_openai_at_once, "reasoning": of_openai_at_once},
        who={"user": "user-7"},
    ),
    "vercel-ai-7": Application(
        "vercel-ai-7",
        node_app("vercel-ai-7", "ai", "@ai-sdk/openai", "@ai-sdk/anthropic", "zod"),
        transports=NODE_SDK,
        unstated={"reasoning": any_call},
    ),
    "python": Application("python", python_app("python_auto", "openai", "anthropic"), transports=PYTHON_SDK),
    "logfire": Application(
        "logfire", python_app("logfire", "openai", "anthropic"), unstated={"model": of_openai_stream}
    ),
    "openlit": Application(
        "openlit", python_app("openlit", "openai", "anthropic"), unstated={"reasoning": of_messages_or_chat}
    ),
    "traceloop": Application(
        "traceloop",
        python_app("traceloop", "openai", "anthropic"),
        unstated={"reasoning": of_chat_stream},
        who={"user": "user-7", "session": "session-7"},
    ),
    "openinference": Application("openinference", python_app("openinference", "openai", "anthropic")),
    "phoenix-openai": Application(
        "phoenix", python_app("phoenix", "openai"), transports=GRPC, settings={"PHOENIX_GRPC_PORT": "{grpc_port}"}
    ),
    "pydantic-ai": Application("pydantic-ai", python_app("pydantic_ai", "pydantic-ai-slim[openai,anthropic]")),
    "opentelemetry": Application(
        "opentelemetry",
        python_app("opentelemetry", "openai"),
        unstated={"cache_read": any_call, "reasoning": any_call},
        unreported=of_responses,
    ),
    "litellm": Application(
        "litellm",
        litellm_proxy,
        transports={"generic_api": {}},
        settings={
            "PROXY_PORT": str(free_port()),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the internet for prices
            "LITELLM_TELEMETRY": "False",
        },
        unstated={"model": any_call},
        converse=stay_until_acknowledged,
    ),
}
