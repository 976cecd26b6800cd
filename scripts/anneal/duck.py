"""DuckDB with a bounded memory: what is larger goes through files."""

from pathlib import Path

import duckdb

MEMORY = "600MB"


def connect(path: str | Path = ":memory:") -> duckdb.DuckDBPyConnection:
    """A connection that spills to disk beyond `MEMORY`."""
    db = duckdb.connect(path)
    db.execute(f"SET memory_limit='{MEMORY}'")
    return db
