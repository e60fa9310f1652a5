"""Who served a call, as OpenTelemetry's well-known values. Precedence:

1. The provider at the address called, by the table `_ADDRESSES`, where the sender states OpenAI:
   its client speaks to all who offer its interface, and names itself.
2. The name the sender gave, by the table `_NAMES`; suffixes of an API (`openai.chat`) or a variant
   (`novita/fp8`) are cut first.
3. The provider at the address called, where the sender gave none, or a name that is no provider
   (a framework, an unknown word).
4. The family of the model's name.
5. The word the sender gave, in lower case, unless it is a framework.
"""

import re
from functools import lru_cache
from typing import Final

_NAMES = {
    "openai": "openai",
    "open_ai": "openai",
    "azure_openai": "azure.ai.openai",
    "azure openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "az.ai.openai": "azure.ai.openai",
    "azure.ai.openai": "azure.ai.openai",
    "azureopenai": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "azure.ai.inference": "azure.ai.inference",
    "azure_ai": "azure.ai.inference",
    "azure-ai": "azure.ai.inference",
    "anthropic": "anthropic",
    "claude": "anthropic",
    "bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
    "aws_bedrock": "aws.bedrock",
    "aws.bedrock": "aws.bedrock",
    "amazon-bedrock": "aws.bedrock",
    "amazon_bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "aws bedrock": "aws.bedrock",
    "amazon bedrock": "aws.bedrock",
    "aws-bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "google_genai": "gcp.gemini",
    "googleai": "gcp.gemini",
    "google.generative-ai": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google_ai_studio": "gcp.gemini",
    "google-ai-studio": "gcp.gemini",
    "google ai studio": "gcp.gemini",
    "google.generativeai": "gcp.gemini",
    "gcp.gemini": "gcp.gemini",
    "gcp.gen_ai": "gcp.gen_ai",
    "vertexai": "gcp.vertex_ai",
    "vertex_ai": "gcp.vertex_ai",
    "vertex": "gcp.vertex_ai",
    "google.vertex": "gcp.vertex_ai",
    "google-vertex": "gcp.vertex_ai",
    "google vertex": "gcp.vertex_ai",
    "google-vertex-ai": "gcp.vertex_ai",
    "google-vertex-anthropic": "gcp.vertex_ai",
    "vertex-ai": "gcp.vertex_ai",
    "vertex.anthropic": "gcp.vertex_ai",
    "vertexmodelgarden": "gcp.vertex_ai",
    "vertexanthropic": "gcp.vertex_ai",
    "google_vertexai": "gcp.vertex_ai",
    "gcp.vertex_ai": "gcp.vertex_ai",
    "gcp.vertex.agent": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "mistral_ai": "mistral_ai",
    "mistral-ai": "mistral_ai",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "deepseek": "deepseek",
    "groq": "groq",
    "xai": "x_ai",
    "x_ai": "x_ai",
    "x.ai": "x_ai",
    "x-ai": "x_ai",
    "grok": "x_ai",
    "perplexity": "perplexity",
    "perplexity-ai": "perplexity",
    "watsonx": "ibm.watsonx.ai",
    "ibm.watsonx.ai": "ibm.watsonx.ai",
    "ibm": "ibm.watsonx.ai",
    # no well-known value, but names of providers
    "github": "github",
    "github_copilot": "github",
    "openrouter": "openrouter",
    "ollama": "ollama",
    "vllm": "vllm",
    "hosted_vllm": "vllm",
    "lmstudio": "lmstudio",
    "together": "together_ai",
    "together_ai": "together_ai",
    "together-ai": "together_ai",
    "togetherai": "together_ai",
    "fireworks": "fireworks_ai",
    "fireworks_ai": "fireworks_ai",
    "fireworks-ai": "fireworks_ai",
    "replicate": "replicate",
    "huggingface": "huggingface",
    "hugging_face": "huggingface",
    "cerebras": "cerebras",
    "sambanova": "sambanova",
    "nvidia": "nvidia",
    "nvidia_nim": "nvidia",
    "databricks": "databricks",
    "cloudflare": "cloudflare",
    "workers-ai": "cloudflare",
    "voyage": "voyage_ai",
    "voyageai": "voyage_ai",
    "moonshot": "moonshot_ai",
    "moonshot_ai": "moonshot_ai",
    "dashscope": "alibaba",
    "alibaba": "alibaba",
    "ai21": "ai21",
    "sagemaker": "aws.sagemaker",
    "elevenlabs": "elevenlabs",
    "deepgram": "deepgram",
    "deepinfra": "deepinfra",
    # LiteLLM's names for one provider's several APIs
    "text-completion-openai": "openai",
    "aiohttp_openai": "openai",
    "azure_text": "azure.ai.openai",
    "anthropic_text": "anthropic",
    "vertex_ai_beta": "gcp.vertex_ai",
    "bedrock_mantle": "aws.bedrock",
    "sagemaker_chat": "aws.sagemaker",
    "sagemaker_nova": "aws.sagemaker",
    "watsonx_text": "ibm.watsonx.ai",
    "ollama_chat": "ollama",
    "lm_studio": "lmstudio",
    "ai21_chat": "ai21",
    "codestral": "mistral_ai",
    "text-completion-codestral": "mistral_ai",
    # who serves open models behind OpenRouter, Vercel, Portkey and Helicone
    "novita": "novita",
    "novitaai": "novita",
    "novita-ai": "novita",
    "chutes": "chutes",
    "parasail": "parasail",
    "nebius": "nebius",
    "baseten": "baseten",
    "hyperbolic": "hyperbolic",
    "siliconflow": "siliconflow",
    "friendli": "friendli",
    "infermatic": "infermatic",
    "mancer": "mancer",
    "mancer 2": "mancer",
    "z.ai": "z_ai",
    "z-ai": "z_ai",
    "zai": "z_ai",
    "moonshotai": "moonshot_ai",
    "moonshot ai": "moonshot_ai",
    "moonshot-ai": "moonshot_ai",
    "minimax": "minimax",
}

_FRAMEWORKS = frozenset(
    {
        "langchain", "langgraph", "llamaindex", "llama_index", "litellm", "litellm_proxy", "haystack", "crewai", "autogen",
        "pydantic-ai", "pydantic_ai", "strands", "strands-agents", "semantic_kernel", "dspy", "agno", "smolagents", "ag2",
        "mastra", "spring_ai", "langfuse", "langsmith", "traceloop", "vercel", "ai", "agent", "agents", "none", "null",
        "unknown", "unspecified", "custom", "other", "_other", "gateway", "llm", "",
    }
)  # fmt: skip

_SUFFIX = re.compile(
    r"/[\w.-]+$|[.\-](chat|responses?|completions?|messages|embeddings?|image|images|speech|transcription|textembedding|generative-ai)$"
)

_WORD = re.compile(r"[\w .:/-]{1,64}", re.ASCII)

_FAMILIES = (
    (re.compile(r"^(us\.|eu\.|apac\.|global\.|arn:aws)?.*\b(anthropic|amazon|meta|mistral|cohere|ai21|deepseek)\.[a-z]"), "aws.bedrock"),
    (re.compile(r"^(gpt-|chatgpt|o[1345](-|$)|text-embedding-(3|ada)|text-davinci|davinci|babbage|dall-e|whisper-|tts-1|codex-|computer-use-|omni-moderation|sora-)"), "openai"),
    (re.compile(r"^claude"), "anthropic"),
    (re.compile(r"^(gemini|gemma|learnlm|imagen|veo-|text-embedding-00|embedding-00|gemini-embedding)"), "gcp.gemini"),
    (re.compile(r"^(open-)?(mistral|mixtral|codestral|ministral|magistral|devstral|pixtral)"), "mistral_ai"),
    (re.compile(r"^(command|c4ai|embed-(english|multilingual|v\d)|rerank-(english|multilingual|v\d))"), "cohere"),
    (re.compile(r"^deepseek-(chat|reasoner)"), "deepseek"),
    (re.compile(r"^grok"), "x_ai"),
    (re.compile(r"^sonar"), "perplexity"),
    (re.compile(r"^voyage-"), "voyage_ai"),
)  # fmt: skip

_ADDRESSES = {
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "inference.ai.azure.com": "azure.ai.inference",
    "models.ai.azure.com": "azure.ai.inference",
    "models.inference.ai.azure.com": "github",
    "models.github.ai": "github",
    "api.githubcopilot.com": "github",
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
    "mistral.ai": "mistral_ai",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "x.ai": "x_ai",
    "perplexity.ai": "perplexity",
    "openrouter.ai": "openrouter",
    "together.xyz": "together_ai",
    "together.ai": "together_ai",
    "fireworks.ai": "fireworks_ai",
    "cerebras.ai": "cerebras",
    "sambanova.ai": "sambanova",
    "deepinfra.com": "deepinfra",
    "api.nvidia.com": "nvidia",
    "huggingface.co": "huggingface",
    "api.replicate.com": "replicate",
    "databricks.com": "databricks",
    "azuredatabricks.net": "databricks",
    "moonshot.ai": "moonshot_ai",
    "moonshot.cn": "moonshot_ai",
    "dashscope.aliyuncs.com": "alibaba",
    "dashscope-intl.aliyuncs.com": "alibaba",
    "dashscope-us.aliyuncs.com": "alibaba",
    "z.ai": "z_ai",
    "bigmodel.cn": "z_ai",
    "minimax.io": "minimax",
    "minimaxi.com": "minimax",
    "ai21.com": "ai21",
    "voyageai.com": "voyage_ai",
    "novita.ai": "novita",
    "nebius.com": "nebius",
    "nebius.ai": "nebius",
    "baseten.co": "baseten",
    "hyperbolic.xyz": "hyperbolic",
    "siliconflow.com": "siliconflow",
    "siliconflow.cn": "siliconflow",
    "friendli.ai": "friendli",
    "parasail.io": "parasail",
    "chutes.ai": "chutes",
}
"""End of a host's name, at a dot -> who serves there; the longest that fits decides."""

_REGIONAL = (
    (re.compile(r"[\w-]+-aiplatform\.googleapis\.com"), "gcp.vertex_ai"),
    (re.compile(r"bedrock(-runtime)?(-fips)?\.[\w-]+\.amazonaws\.com(\.cn)?"), "aws.bedrock"),
)
"""Hosts whose names hold a region, before or behind the name of the service."""

_HOST = re.compile(r"(?:[a-z][a-z\d+.-]*://)?(?:[^/?#]*@)?([^/?#:@]+)", re.IGNORECASE)

_CATALOGUES = frozenset(
    {
        "openrouter", "groq", "together_ai", "fireworks_ai", "cerebras", "sambanova", "deepinfra", "nvidia", "huggingface",
        "replicate", "databricks", "cloudflare", "novita", "nebius", "baseten", "hyperbolic", "siliconflow", "friendli",
        "parasail", "chutes", "github", "ibm.watsonx.ai", "vllm",
    }
)  # fmt: skip
"""Who serves models of several makers, with the maker in the name: Groq's `openai/gpt-oss-120b`."""

_APART = frozenset({"anthropic", "aws.bedrock"})


COUNTING_IN: Final = frozenset({"openai", "azure.ai.openai"})
"""Who counts cached tokens and reasoning into the wholes, and the wholes into the total."""


def counts_cache_apart(name: str | None, model: str | None) -> bool:
    """Whether the provider's own usage leaves cached tokens out of the input,
    so that clients must add them.
    """
    return name in _APART or (name == "gcp.vertex_ai" and model is not None and "claude" in model.lower())


_GOOGLE = frozenset({"gcp.gemini", "gcp.gen_ai", "gcp.vertex_ai"})
_OTHERS_AT_GOOGLE = (
    "claude",
    "mistral",
    "codestral",
    "llama",
    "deepseek",
    "qwen",
    "jamba",
    "gpt-oss",
    "kimi",
    "minimax",
    "glm",
)
"""Parts of the names of models of others that Vertex AI serves."""


def counts_thoughts_apart(name: str | None, model: str | None) -> bool:
    """Whether the provider's own usage leaves thoughts out of the output."""
    return name in _GOOGLE and not any(word in (model or "").lower() for word in _OTHERS_AT_GOOGLE)


def may_think_apart(name: str | None, model: str | None) -> bool:
    """Whether a total may hold thoughts that stand beside the output: Google's own, and its models
    behind an interface of OpenAI's form.
    """
    return counts_thoughts_apart(name, model) or "gemini" in (model or "").lower()


@lru_cache(maxsize=4096)
def provider(sent: str | None, model: str | None, address: str | None) -> str | None:
    """The provider by the module's precedence; None when nothing states it."""
    host = provider_at(address)
    name = named_provider(sent)
    if name is not None:
        return host if name == "openai" and host not in {None, "azure.ai.inference"} else name
    return host or model_provider(model) or _word(sent)


def names_makers(name: str | None) -> bool:
    """Whether the provider *name* puts a model's maker before its name."""
    return name in _CATALOGUES


@lru_cache(maxsize=1024)
def named_provider(sent: str | None) -> str | None:
    """The well-known value of a provider's name; None for any other word."""
    if sent is None:
        return None
    name = sent.strip().lower()
    while name not in _NAMES:
        cut = _SUFFIX.sub("", name)
        if cut == name:
            return None
        name = cut
    return _NAMES[name]


@lru_cache(maxsize=4096)
def model_provider(model: str | None) -> str | None:
    """The provider whose family a model's name belongs to; a prefix such as `openai/`
    decides where it is known.
    """
    if model is None:
        return None
    prefix, slash, rest = model.lower().partition("/")
    if slash:
        return named_provider(prefix) or model_provider(rest)
    for pattern, name in _FAMILIES:
        if pattern.search(prefix):
            return name
    return None


@lru_cache(maxsize=1024)
def provider_at(address: str | None) -> str | None:
    """Who serves at *address*, a host's name or a URL; None where the tables do not know."""
    found = _HOST.match(address.strip()) if address is not None else None
    if found is None:
        return None
    host = found.group(1).lower()
    for pattern, name in _REGIONAL:
        if pattern.fullmatch(host):
            return name
    while host:
        if host in _ADDRESSES:
            return _ADDRESSES[host]
        host = host.partition(".")[2]
    return None


def _word(sent: str | None) -> str | None:
    """An unknown word as it came, in lower case; None for a framework."""
    if sent is None:
        return None
    word = _SUFFIX.sub("", sent.strip().lower())
    return None if word in _FRAMEWORKS or not _WORD.fullmatch(word) else word
