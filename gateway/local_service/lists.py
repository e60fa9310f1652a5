"""A list endpoint of the service: the page of a call's query string."""

import sqlite3

from gateway.common.lists.conventions import BadListRequest, envelope, read_request
from gateway.common.lists.table import ListTable, Params, fetch_page
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.errors import Invalid


def list_answer(
    connection: sqlite3.Connection, table: ListTable, call: ServiceCall, *, only: str = "TRUE", params: Params = ()
) -> ServiceAnswer:
    """Of the rows for which the SQL condition *only* holds. Raises Invalid."""
    try:
        request = read_request(table.shape, call.query)
    except BadListRequest as error:
        raise Invalid(error.kind, str(error)) from error
    page = fetch_page(connection, table, request, only=only, params=params)
    return json_answer(200, envelope(table.shape, request, page))
