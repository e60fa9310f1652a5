"""The connections of a gateway to the database of its cell."""

import os
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from exporters.keyring import KeyFault, read_secret
from gateway.common.contract.errors import CannotStart
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.config.model import Config, Store
from spool.postgres.connection import CONNECT, text_of

SCHEMA: Final = "cell_{name}"
ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('ai-telemetry-gateway ' || %s, 0))"


def dsn_of(store: Store) -> str:
    """With password and schema. Raises CannotStart."""
    try:
        password = {} if store.password is None else {"password": read_secret(store.password, os.environ).reveal()}
        return make_conninfo(store.dsn, options=f"-c search_path={schema_of(store)}", **password)
    except KeyFault as fault:
        raise CannotStart(f"store.password: {fault}") from fault
    except psycopg.ProgrammingError as error:
        raise CannotStart(f"store.dsn: {text_of(error)}") from error


def schema_of(store: Store) -> str:
    return SCHEMA.format(name=store.cell)


def make_schema(config: Config) -> None:
    """Make the schema of the cell where it is missing. Waits for the network. Raises CannotStart
    where it may not be made, DatabaseUnavailable.
    """
    name = schema_of(config.store)
    try:
        with psycopg.connect(dsn_of(config.store), **CONNECT) as connection, connection.transaction():
            connection.execute(ONE_AT_A_TIME, (name,))  # also with IF NOT EXISTS, one of two would fail
            if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is None:
                connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(name)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise CannotStart(
            f"store.cell: this role may not make the schema {name}: make it and give it to the role"
        ) from error
    except psycopg.Error as error:
        raise DatabaseUnavailable(f"Postgres: {text_of(error)}") from error
