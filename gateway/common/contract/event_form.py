"""In which form a request carries usage events: the service's own, or one of the three content
modes of CloudEvents over HTTP. Pure.
"""

from typing import Final, Literal, NamedTuple

Mode = Literal["own", "structured", "batched", "binary"]
"""`own`: the service's events. The others are CloudEvents: one in the body, an array of them, or
one whose attributes are headers and whose data is the body.
"""


STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"


class EventForm(NamedTuple):
    mode: Mode = "own"
    attributes: tuple[tuple[str, str], ...] = ()
    """Of the mode `binary`: name of an attribute, and the header's value as it came."""
    content_type: str = ""
    """Of the mode `binary`: that of the data; empty where the request names none."""


OWN_FORM: Final = EventForm()
