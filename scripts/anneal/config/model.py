"""Section `models`: base models."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Section

SpecialToken = Literal["bos_token", "eos_token", "pad_token", "unk_token"]


class Model(Section):
    """Where a base model comes from. Nothing is downloaded unless `hub` says so."""

    path: str | None = Field(None, description="Local folder in the Hugging Face layout.")
    package: str | None = Field(
        None, description="Installed Python package that carries the model as a file."
    )
    gguf: str | None = Field(None, description="GGUF file inside the package or folder.")
    hub: str | None = Field(None, description="Hub id to download, e.g. `org/name`.")
    revision: str | None = Field(None, description="Commit of the Hub repository to pin.")
    chat_template: str | None = Field(
        None,
        description="Jinja file that replaces the model's chat template; it is saved with every "
        "model trained from this one.",
    )

    special_tokens: dict[SpecialToken, str] = Field(
        default_factory=dict,
        description="Special tokens to set, e.g. `pad_token: <pad>`; new ones get new embedding "
        "rows. Without a pad token the end token pads, which costs no label here.",
    )
    add_tokens: list[str] = Field(
        default_factory=list,
        description="New tokens; their embedding rows start at the mean of the old ones.",
    )

    @model_validator(mode="after")
    def _one_place(self):
        given = [name for name in ("path", "package", "hub") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("give exactly one of 'path', 'package' and 'hub'")
        if self.package and not self.gguf:
            raise ValueError("'package' needs the file's name in 'gguf'")
        return self
