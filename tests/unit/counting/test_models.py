"""The short form under which model names are compared."""

import subprocess
import sys

import pytest

from gateway.counting.calls.models import fingerprint, model_fingerprint, short_model
from tests.support.growth import assert_linear

SHORT = {
    "gpt-4o": "gpt-4o",
    "gpt-4o-2024-08-06": "gpt-4o",
    "GPT-4o-mini-2024-07-18": "gpt-4o-mini",
    "openai/gpt-4o": "gpt-4o",
    "azure/openai/gpt-4o-2024-08-06": "gpt-4o",
    "gpt-4-0613": "gpt-4",
    "gpt-4.1": "gpt-4.1",
    "o1-preview-2024-09-12": "o1",
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
    "claude-sonnet-4-5@20250929": "claude-sonnet-4-5",
    "anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5",
    "bedrock/eu.anthropic.claude-3-haiku-20240307-v1:0": "claude-3-haiku",
    "claude-3-5-haiku-latest": "claude-3-5-haiku",
    "models/gemini-2.5-pro": "gemini-2.5-pro",
    "gemini-2.5-flash-preview-09-2025": "gemini-2.5-flash",
    "gemini-1.5-pro-002": "gemini-1.5-pro",
    "gemini-2.5-flash-preview-05-20": "gemini-2.5-flash",
    "command-r-08-2024": "command-r",
    "gpt-4-1106-preview": "gpt-4",
    "gpt-4-32k": "gpt-4-32k",
    "meta.llama3-70b-instruct-v1:0": "llama3-70b-instruct",
    "text-embedding-3-small": "text-embedding-3-small",
    " mistral-large-2411 ": "mistral-large",
    "v1": "v1",
    "openai/": "openai/",
}


@pytest.mark.parametrize("name", SHORT)
def test_a_name_is_compared_without_prefix_date_and_version(name: str) -> None:
    assert short_model(name) == SHORT[name]
    assert model_fingerprint(name) == model_fingerprint(SHORT[name])


@pytest.mark.parametrize(
    ("one", "other"),
    [("gpt-4o", "gpt-4o-mini"), ("gpt-4", "gpt-4.1"), ("claude-sonnet-4", "claude-sonnet-4-5"), ("o1", "o3")],
)
def test_different_models_stay_different(one: str, other: str) -> None:
    assert model_fingerprint(one) != model_fingerprint(other)


def test_no_name_has_no_fingerprint() -> None:
    assert model_fingerprint(None) == model_fingerprint("") == 0


def test_fingerprints_are_63_bits_never_0_and_the_same_in_every_process() -> None:
    names = ["", "gpt-4o", "\udcff", "é"]
    here = [fingerprint(name) for name in names]
    assert all(0 < value < 1 << 63 for value in here)
    program = (
        "from gateway.counting.calls.models import fingerprint as f; print([f(x) for x in ['','gpt-4o','\\udcff','é']])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == str(here)


def test_a_made_up_name_takes_no_time() -> None:
    def work(n: int) -> None:
        name = "gpt" + "-2024-12-12" * n + "x"
        assert short_model(name) == name

    assert_linear(work, 20)
