"""How the process logs: one line an event on stderr; nothing of a payload, no key."""

import logging
import sys
from typing import Literal

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from gateway.cli.log_limit import RepeatFilter, Repeats, limited

REPEATS = Repeats()
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""`log_level` -> level."""


def configure_logging(level: int = logging.INFO, form: Literal["console", "json"] = "console") -> None:
    """Both structlog and the standard library write to stderr, in one *form*;
    libraries only from WARNING up. Again, at another *level* or in another *form*, is good.
    """
    time = structlog.processors.TimeStamper(fmt="iso", utc=True)
    rendering = RENDERING[form]()
    structlog.configure(
        processors=[structlog.processors.add_log_level, limited(REPEATS), time, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    of_library: list[Processor] = [structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, time]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=of_library, processors=[ProcessorFormatter.remove_processors_meta, *rendering]
        )
    )
    handler.addFilter(RepeatFilter(REPEATS))
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger().setLevel(max(level, logging.WARNING))


def _for_a_reader() -> list[Processor]:
    # Its own way to show an exception quotes local variables: what a sender sent.
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    ]


def _for_a_machine() -> list[Processor]:
    """One JSON object a line: `timestamp`, `level`, `event`, and the fields of the event."""
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]


RENDERING = {"console": _for_a_reader, "json": _for_a_machine}
"""`log_format` -> how a line is written."""
