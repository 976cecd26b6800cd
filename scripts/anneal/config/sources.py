"""Section `sources` of a dataset: where raw rows come from and what their columns are called."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Section


class Source(Section):
    """One source of raw rows: files (format found by content), a SQL query or a Hub dataset."""

    path: str | None = Field(
        None,
        description="File or glob: JSON lines, a JSON array, CSV or TSV (each also gzip or zstd), "
        "Parquet, Arrow, SQLite, or a folder written by `save_to_disk`. Found by content.",
    )
    query: str | None = Field(None, description="SQL query, for a database.")
    url_env: str | None = Field(
        None,
        description="Name of the environment variable that holds a database URL. "
        "The URL itself is never written anywhere.",
    )
    change_query: str | None = Field(
        None,
        description="Cheap SQL query whose answer changes with the data, such as "
        "`select max(updated_at), count(*) from notes`. It is asked at every start.",
    )
    snapshot: str = Field(
        "",
        description="Label of a database snapshot: change it to query the database again.",
    )
    hub: str | None = Field(
        None, description="Hub dataset, `org/name`; it is downloaded when the source is read."
    )
    revision: str = Field("main", description="Commit, tag or branch of the Hub dataset.")
    subset: str | None = Field(None, description="Configuration of the Hub dataset.")
    split: str = Field("train", description="Split of a Hub dataset or a saved one.")
    weight: float = Field(
        1,
        gt=0,
        description="Share of the training rows to keep (0.25: a quarter), or how often each is "
        "repeated (3: three times).",
    )
    max_row_mb: float = Field(64, gt=0, description="Larger rows are rejected, never split.")
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Our field name to the source's column name, where they differ.",
    )
    tags: list[str] = Field(default_factory=list, description="Free labels, kept with each row.")

    @model_validator(mode="after")
    def _one_place(self):
        if sum(place is not None for place in (self.path, self.url_env, self.hub)) != 1:
            raise ValueError("give either 'path', 'url_env' or 'hub'")
        if self.url_env and not self.query:
            raise ValueError("'url_env' needs a 'query'")
        if self.change_query and not self.url_env:
            raise ValueError("'change_query' needs 'url_env'; a file's bytes tell its changes")
        return self

    def reading(self) -> dict:
        """What decides how a row is read."""
        names = {"columns", "query", "revision", "subset", "split", "max_row_mb", "tags"}
        return self.model_dump(include=names)


Kind = Literal["instruction", "chat", "preference", "prompts", "text"]
