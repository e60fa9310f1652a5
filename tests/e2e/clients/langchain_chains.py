"""LangChain on OpenAI under OpenInference's LangChain instrumentation; VARIANT `both` adds
the one of the client below.
"""

from contextlib import suppress

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openai import APIStatusError
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import get_tracer

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments, arguments, report, start


def weather(city: str) -> str:
    """The weather CANARY-7Q-PROMPT."""
    return f"rain in {city}"


def main() -> None:
    """Entry point."""
    given = arguments()
    finish = start(given)
    LangChainInstrumentor().instrument()
    if given.variant == "both":
        OpenAIInstrumentor().instrument()
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = _make_calls(given)
    finish()
    report(calls)


def _make_calls(given: Arguments) -> int:
    mini = _model(given, "chain", "gpt-4o-mini")
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief. CANARY-7Q-PROMPT"), ("user", "{question}")])
    chain = prompt | mini | StrOutputParser()
    chain.invoke({"question": PROMPT})
    chain.batch([{"question": PROMPT}, {"question": PROMPT}])
    for _ in chain.stream({"question": PROMPT}):
        pass
    _model(given, "chain", "gpt-4o").bind_tools([weather]).invoke(PROMPT)
    _model(given, "chain", "gpt-4o", responses=True).invoke(PROMPT)
    with suppress(APIStatusError):
        _model(given, "error429", "gpt-4o").invoke(PROMPT)
    return 7


def _model(given: Arguments, scenario: str, name: str, *, responses: bool = False) -> ChatOpenAI:
    return ChatOpenAI(
        model=name,
        base_url=given.provider_url(scenario) + "/v1",
        api_key=API_KEY,
        max_retries=0,
        stream_usage=True,
        use_responses_api=responses,
    )


if __name__ == "__main__":
    main()
