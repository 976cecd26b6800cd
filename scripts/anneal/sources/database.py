"""Rows of a SQL query, streamed. Nothing is written, and no message holds the URL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import sqlalchemy
from sqlalchemy.exc import ResourceClosedError, SQLAlchemyError

from anneal.errors import UserError
from anneal.provenance.digests import digest_text
from anneal.sources.lines import Row

BATCH = 200  # rows held at a time; each may be large
# SQLAlchemy's own default for these is a driver that is no longer developed.
DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}


def query_rows(piece: dict, query: str) -> Iterator[Row]:
    """Rows of a query, fetched in batches through a cursor of the server where it has them.

    Raises:
        UserError: no connection, or the query fails.
    """
    with _answer(piece, query) as result:
        for line, row in enumerate(result.mappings(), 1):
            yield line, None, dict(row)


def changes(variable: str, query: str) -> str:
    """Digest of the rows of a cheap query that changes with the data."""
    with _answer({"format": "sql", "file": variable}, query) as result:
        return digest_text("\n".join(repr(tuple(row)) for row in result))


@contextmanager
def _answer(piece: dict, query: str) -> Iterator[sqlalchemy.CursorResult]:
    url = _url(piece)
    where = shown(piece)
    engine = _engine(url, where)
    try:
        with _connected(engine, where) as connection:
            yield connection.execute(sqlalchemy.text(query))
    except ResourceClosedError:
        raise UserError(where, "the query returns no rows", "let it select") from None
    except SQLAlchemyError as error:
        what = f"the query failed: {_reason(error, url)}"
        raise UserError(where, what, "check 'query'") from None
    finally:
        engine.dispose()


def shown(piece: dict) -> str:
    """The name of a database in messages and records."""
    return f"${piece['file']}" if piece["format"] == "sql" else piece["file"]


def _engine(url: sqlalchemy.URL, where: str) -> sqlalchemy.Engine:
    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    except ImportError as error:
        do = "install it in the environment"
        raise UserError(where, f"needs the driver '{error.name}'", do) from None
    except SQLAlchemyError:
        what = f"no database is known as '{url.drivername}'"
        raise UserError(where, what, "see SQLAlchemy's dialects") from None
    if url.drivername == "sqlite":
        sqlalchemy.event.listen(engine, "connect", _keep_odd_bytes)
    return engine


def _keep_odd_bytes(connection, _) -> None:
    """Text that is no UTF-8 costs its row, not the query."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")


def _connected(engine: sqlalchemy.Engine, where: str) -> sqlalchemy.Connection:
    try:
        connection = engine.connect()
    except Exception as error:  # drivers raise what they like, and name user and host in it
        refused = "authentication" in str(error)
        what = "refuses user or password" if refused else "cannot be reached"
        raise UserError(where, f"the database {what}", "check the URL in it") from None
    return connection.execution_options(yield_per=BATCH, postgresql_readonly=True)


def _reason(error: SQLAlchemyError, url: sqlalchemy.URL) -> str:
    text = str(getattr(error, "orig", None) or type(error).__name__).split("\n")[0]
    for secret in (url.render_as_string(hide_password=False), url.password):
        text = text.replace(secret, "***") if secret else text
    return text


def _url(piece: dict) -> sqlalchemy.URL:
    if piece["format"] == "sqlite":
        file = f"file:{quote(piece['file'])}"
        return sqlalchemy.URL.create("sqlite", database=file, query={"mode": "ro", "uri": "true"})
    where, text = shown(piece), os.environ.get(piece["file"])
    if not text:
        raise UserError(where, "is not set", "export it with the database URL")
    try:
        url = sqlalchemy.make_url(text)
    except Exception:  # the message would hold a part of the URL
        do = "write DIALECT://USER:PASSWORD@HOST/NAME"
        raise UserError(where, "holds no database URL", do) from None
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))
