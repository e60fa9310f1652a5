"""The description of the page's views and forms, from their registry. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from gateway.operate.openapi.operations import names_in
from gateway.operate.operation import NAMED, Json
from gateway.operate.site.view import Action, View

TAG: Final = "Page"
_HTML: Final = {"text/html": {"schema": {"type": "string"}}}
_EITHER: Final = {**_HTML, "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_FORM: Final = {
    "application/x-www-form-urlencoded": {"schema": {"type": "object", "additionalProperties": {"type": "string"}}}
}
_ERRORS: Final = {
    "400": "A field or parameter is wrong.",
    "401": "No credential; a browser gets the form to log in.",
    "403": "The credential is a viewer's, or the Host header is no name of this listener.",
    "404": "There is none.",
    "409": "It cannot be done as things are.",
    "413": "The form is too large.",
    "415": "The form is compressed in a way that is not read.",
    "503": "The files cannot be read or written now.",
}


def site_paths(views: Sequence[View], actions: Sequence[Action]) -> Json:
    """The path items of *views* and *actions*, before security and servers are written out."""
    paths: Json = {}
    for view in views:
        answers = {"200": {"description": "The page.", "content": _HTML}, **errors("400", "401", "403", "404", "503")}
        paths.setdefault(view.path, {})["get"] = item(view.path, f"View: {view.title}", answers)
    for action in actions:
        answers = {
            "200": {"description": "Done; the page shows what came of it.", "content": _HTML},
            "303": {"description": "Done.", "headers": {"Location": {"schema": {"type": "string"}}}},
            **errors(*_ERRORS),
        }
        form = {"requestBody": {"content": _FORM}}
        paths.setdefault(action.path, {})["post"] = {**item(action.path, f"Form: {action.title}", answers), **form}
    return paths


def item(path: str, summary: str, responses: Json) -> Json:
    words = [word.capitalize() for word in re.findall(r"\w+", f"{summary.partition(':')[0]} {path}")]
    found: Json = {"operationId": "page" + "".join(words), "summary": summary, "tags": [TAG], "responses": responses}
    if names := names_in(path):
        found["parameters"] = [{"name": name, "in": "path", "required": True, "schema": NAMED} for name in names]
    return found


def errors(*statuses: str) -> Json:
    return {status: {"description": _ERRORS[status], "content": _EITHER} for status in statuses}
