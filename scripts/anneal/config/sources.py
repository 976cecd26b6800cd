"""Section `sources` of a dataset: where raw rows come from and what their columns are called."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Section


class Source(Section):
    """One source of raw rows: files (format found by content) or a SQL query."""

    path: str | None = Field(
        None,
        description="File or glob of JSONL (plain, gzip or zstd), Parquet or an SQLite database. "
        "The format is found by content.",
    )
    query: str | None = Field(None, description="SQL query, for a database.")
    url_env: str | None = Field(
        None,
        description="Name of the environment variable that holds a database URL. "
        "The URL itself is never written anywhere.",
    )
    snapshot: str = Field(
        "",
        description="Label of a database snapshot: change it to query the database again.",
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Our field name to the source's column name, where they differ.",
    )
    tags: list[str] = Field(default_factory=list, description="Free labels, kept with each row.")

    @model_validator(mode="after")
    def _one_place(self):
        if (self.path is None) == (self.url_env is None):
            raise ValueError("give either 'path' or 'url_env'")
        if self.url_env and not self.query:
            raise ValueError("'url_env' needs a 'query'")
        return self


Kind = Literal["instruction", "chat"]
