"""Section `models`: base models."""

from pydantic import Field, model_validator

from anneal.config.base import Section


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

    @model_validator(mode="after")
    def _one_place(self):
        given = [name for name in ("path", "package", "hub") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("give exactly one of 'path', 'package' and 'hub'")
        if self.package and not self.gguf:
            raise ValueError("'package' needs the file's name in 'gguf'")
        return self
