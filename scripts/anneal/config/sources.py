"""Section `sources` of a dataset: where raw rows come from and what their columns are called."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from anneal.config.address import check_address
from anneal.config.base import Section
from anneal.config.generate import Generate

SHA256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$", to_lower=True)]


class Source(Section):
    """One source of raw rows: files, an address, a SQL query, a Hub dataset, or a model."""

    path: str | None = Field(
        None,
        description="File or glob: JSON lines, a JSON array, CSV or TSV (each also gzip or zstd), "
        "Parquet, Arrow, SQLite, or a folder written by `save_to_disk`. Found by content.",
    )
    url: str | None = Field(
        None,
        description="Address (http or https) of one file of any such format; it is downloaded when "
        "the source is read.",
    )
    sha256: SHA256 | None = Field(
        None,
        description="What the downloaded bytes must have. Without it, `snapshot` tells versions of "
        "the file apart.",
    )
    token_env: str | None = Field(
        None,
        description="Name of the environment variable that holds a bearer token for `url`. "
        "The token itself is never written anywhere.",
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
        description="Label of a version of the database or of the file behind `url`: change it to "
        "read it again.",
    )
    hub: str | None = Field(
        None, description="Hub dataset, `org/name`; it is downloaded when the source is read."
    )
    generate: Generate | None = Field(
        None, description="Rows that a language model writes, after some written by hand."
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
        places = (self.path, self.url, self.url_env, self.hub, self.generate)
        if sum(place is not None for place in places) != 1:
            raise ValueError("give either 'path', 'url', 'url_env', 'hub' or 'generate'")
        if self.url_env and not self.query:
            raise ValueError("'url_env' needs a 'query'")
        if self.change_query and not self.url_env:
            raise ValueError("'change_query' needs 'url_env'; a file's bytes tell its changes")
        if (self.sha256 or self.token_env) and not self.url:
            raise ValueError("'sha256' and 'token_env' belong to a 'url'")
        return self

    @model_validator(mode="after")
    def _address_holds_no_secret(self):
        if self.url:
            check_address(self.url, "token", "token_env")
        return self

    def reading(self) -> dict:
        """What decides how a row is read."""
        names = {"columns", "query", "revision", "subset", "split", "max_row_mb", "tags"}
        return self.model_dump(include=names | ({"sha256", "token_env"} if self.url else set()))


Kind = Literal["instruction", "chat", "preference", "prompts", "text"]
