"""`demo` where the distribution was installed without its extra."""

import subprocess
import sys

WITHOUT_THE_EXTRA = """
import sys
sys.modules["opentelemetry.sdk"] = sys.modules["opentelemetry.exporter"] = None
from gateway.cli.main import main
main(["demo"])
"""


def test_a_demo_without_its_extra_names_what_to_install() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "pip install 'ai-telemetry-gateway[demo]'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
