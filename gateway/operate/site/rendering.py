"""Templates -> HTML, every value escaped where it is put in, without control characters: names of
models and reasons come from senders and from the upstream.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gateway.common.printable import KEPT, harmless
from gateway.operate.site import words
from gateway.operate.site.assets import ASSETS
from gateway.usage.sums.figures import money_text

SHORT_CHARS: Final = 17
"""In a narrow window too, as `claude-sonnet-4-5`."""
SHORT: Final = Markup('<span class="short">{}</span>')
WHOLE_CHARS: Final = 32
WHOLE: Final = Markup('<span class="whole">{}</span>')
ADDRESS_CHARS: Final = 80
_STEPS: Final = re.compile(r"[^/.]+[/.]?|[/.]")
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def shown(value: object) -> object:
    """What is put into a page for *value*. What is markup already was made of values that were."""
    return harmless(value, KEPT) if type(value) is str else value


def marked(text: str) -> Markup:
    """*text* with what is between backticks as code."""
    parts = harmless(text, KEPT).split("`")
    return Markup("").join(code(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def unbroken(text: str) -> Markup:
    """*text* on one line, a long one only where there is room, and a very long one nowhere."""
    if len(text) > WHOLE_CHARS:
        return escape(harmless(text, KEPT))
    return (SHORT if len(text) <= SHORT_CHARS else WHOLE).format(harmless(text, KEPT))


def address(text: str) -> Markup:
    """An address on one line, unless it is very long."""
    return Markup('<span class="{}">{}</span>').format(
        "address" if len(text) <= ADDRESS_CHARS else "", harmless(text, KEPT)
    )


def steps(text: str) -> Markup:
    """A path or the name of an option: a line ends after a slash or a dot, where there is one."""
    return Markup("<wbr>").join(escape(part) for part in _STEPS.findall(harmless(text, KEPT)))


def code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


TEMPLATES: Final = Environment(
    finalize=shown,
    loader=PackageLoader("gateway.operate.site"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
TEMPLATES.filters.update(
    number=words.number,
    words=words.words,
    age=words.age,
    duration=words.duration,
    size=words.size,
    when=words.when,
    money=words.money,
    exact=money_text,
    rfc3339=words.rfc3339,
    marked=marked,
    unbroken=unbroken,
    address=address,
    steps=steps,
)
TEMPLATES.globals.update(share=words.share, asset=lambda name: ASSETS[name].path)


def render(template: str, context: Mapping[str, Any]) -> str:
    """The HTML of *template*, a file in `templates/`. Raises UndefinedError for a name that the
    context lacks.
    """
    return TEMPLATES.get_template(template).render(context)


def html(text: str, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")
