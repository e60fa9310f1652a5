"""What the process writes to stderr as its log, whoever logs."""

import json
import re
import subprocess
import sys

LOGS = """
import logging, structlog
from gateway.cli.logging import configure_logging
configure_logging()
structlog.get_logger().warning("spool salvaged", records=3)
logging.getLogger("spool.sqlite.writer").error("%d pages are damaged", 2)
logging.getLogger("spool.sqlite.writer").info("of no interest")
try:
    prompt = "CANARY-" + "7Q"
    raise ValueError("no number")
except ValueError:
    logging.getLogger("asyncio").exception("a task ended")
    structlog.get_logger().exception("a lane ended")
"""
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \[(\w+) *\] (\S.*?)  +(.*)")


def test_lines_of_the_standard_library_have_the_form_of_all_others_and_no_exception_shows_variables() -> None:
    ended = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, timeout=60, check=True)
    lines = [found.groups() for line in ended.stderr.splitlines() if (found := LINE.match(f"{line}  "))]
    assert [(level, event) for level, event, _ in lines] == [
        ("warning", "spool salvaged"),
        ("error", "2 pages are damaged"),
        ("error", "a task ended"),
        ("error", "a lane ended"),
    ]
    assert [rest.strip() for _, _, rest in lines[:3]] == ["records=3", "[spool.sqlite.writer]", "[asyncio]"]
    assert ended.stderr.count("ValueError: no number") == 2
    assert "CANARY" not in ended.stderr
    assert ended.stdout == ""


def test_as_json_each_line_is_one_object_of_the_same_fields() -> None:
    logs = LOGS.replace("configure_logging()", 'configure_logging(form="json")')
    ended = subprocess.run([sys.executable, "-c", logs], capture_output=True, text=True, timeout=60, check=True)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("warning", "spool salvaged"),
        ("error", "2 pages are damaged"),
        ("error", "a task ended"),
        ("error", "a lane ended"),
    ]
    assert lines[0]["records"] == 3
    assert [line.get("logger") for line in lines] == [None, "spool.sqlite.writer", "asyncio", None]
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert all("ValueError: no number" in line["exception"] for line in lines[2:])
    assert "CANARY" not in ended.stderr
