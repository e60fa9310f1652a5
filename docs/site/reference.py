"""Pages of the site that are made of the code: options, commands, paths of the HTTP interface."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gateway.cli.main import main
from gateway.common.lists.openapi.document import operations
from gateway.config.environment import PREFIX, leaf_options, resolved
from gateway.config.model import config_schema
from gateway.local_service.openapi.document import service_document
from gateway.operate.openapi.document import gateway_document

Json = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Path below the site -> Markdown."""
    return {
        "reference/options.md": options_page(),
        "reference/commands.md": commands_page(),
        "reference/http.md": http_page(),
    }


# ---- options


def options_page() -> str:
    schema = config_schema()
    rows = [option_row(schema, path) for path in leaf_options(schema, schema, ())]
    head = (
        "# Options\n\nEvery option that is one value, from the configuration's model; groups, lists and what they"
        " mean: [configuration](../configuration.md).\n\n"
        "| option | environment | type | default |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def option_row(schema: Json, path: tuple[str, ...]) -> str:
    node: Json = schema
    stated: Json = {}
    for name in path:
        stated = resolved(schema, node)["properties"][name]
        node = stated
    default = stated.get("default", resolved(schema, stated).get("default"))
    name, variable = ".".join(path), PREFIX + "_".join(path).upper()
    return f"| `{name}` | `{variable}` | {type_text(schema, stated)} | {shown(default)} |"


def type_text(schema: Json, node: Json) -> str:
    found = resolved(schema, node)
    if "enum" in found:
        return " \\| ".join(f"`{value}`" for value in found["enum"])
    kind = found.get("type", "text")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def shown(default: object) -> str:
    if default is None or default == "":
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


# ---- commands


def commands_page() -> str:
    parts = ["# Commands\n\nAs `--help` of each states it.\n"]
    parts += [command_text(context) for context in contexts(click.Context(main, info_name="telemetry-gateway"))]
    return "\n".join(parts)


def contexts(context: click.Context) -> Iterator[click.Context]:
    """The context of each command that is no group, in order."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name, below in sorted(command.commands.items()):
        yield from contexts(click.Context(below, info_name=name, parent=context, max_content_width=100))


def command_text(context: click.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


# ---- the HTTP interface


def http_page() -> str:
    head = (
        "# Paths of the HTTP interface\n\nFrom the OpenAPI documents, which the gateway serves as `/openapi.json` on"
        " the admin port: [HTTP interface](../api.md).\n"
    )
    return "\n".join([head, *tables("The gateway", gateway_document()), *tables("The service", service_document())])


def tables(title: str, document: Any) -> Iterator[str]:
    yield f"## {title}\n\n| method | path | what |\n|---|---|---|"
    for method, path, operation in operations(document):
        yield f"| {method} | `{path}` | {operation['summary'].replace('|', chr(92) + '|')} |"
    yield ""
