"""How the process logs: one line an event on stderr; nothing of a payload, no key."""

import logging
import sys

import structlog


def configure_logging(level: int = logging.INFO) -> None:
    """Both structlog and the standard library write to stderr; libraries only from WARNING up."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s"
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
