"""Section `datasets`: from raw rows to tokenized splits."""

from pydantic import Field, model_validator

from anneal.config.base import Name, Section, Share
from anneal.config.clean import Clean, Decontaminate, Deduplicate, Filter
from anneal.config.prepare import Format, Split, Stream, Tokenize
from anneal.config.sources import Kind, Source


class Dataset(Section):
    """One dataset: many sources, one kind of record."""

    kind: Kind = Field(
        "instruction",
        description="`instruction`: instruction, input, output; `chat`: messages, tools; "
        "`preference`: prompt, chosen, rejected; `prompts`: prompt; `text`: text.",
    )
    sources: dict[Name, Source] = Field(
        min_length=1,
        description="Sources by name, in order: of two equal rows the earlier source's is kept.",
    )
    shard_mb: float = Field(64, gt=0, description="Size of the pieces a large JSONL is cut into.")
    max_reject_share: Share = Field(
        0.1, description="Share of unreadable rows in a source above which the run stops."
    )
    clean: Clean = Field(default_factory=Clean, description="Repair and personal data.")
    filter: Filter = Field(default_factory=Filter, description="Rows to keep.")
    decontaminate: Decontaminate = Field(
        default_factory=Decontaminate, description="Rows that give away test questions."
    )
    deduplicate: Deduplicate = Field(default_factory=Deduplicate, description="Duplicates.")
    split: Split = Field(default_factory=Split, description="Train, eval and test.")
    format: Format = Field(default_factory=Format, description="Text form.")
    tokenize: Tokenize = Field(default_factory=Tokenize, description="Token form.")
    stream: Stream | None = Field(
        None,
        description="Read, clean and tokenize while training, and store nothing: for data larger "
        "than the disk. `{}` takes the defaults; unset, the dataset is prepared and stored.",
    )

    @model_validator(mode="after")
    def _settings_fit_the_kind(self):
        if self.kind != "text" and self.tokenize.truncation == "split":
            raise ValueError("tokenize.truncation 'split' would tear prompts from responses")
        if self.kind == "chat" and self.format.style != "chat":
            raise ValueError(f"format.style '{self.format.style}' cannot show a conversation")
        return self

    @model_validator(mode="after")
    def _can_be_generated(self):
        if any(source.generate for source in self.sources.values()):
            if self.kind not in ("instruction", "prompts"):
                raise ValueError(f"'generate' writes instructions, not '{self.kind}' records")
            if self.stream:
                raise ValueError("generated rows cannot be streamed; remove 'stream'")
        return self

    def generators(self) -> set[str]:
        """The models of this configuration that write rows of this dataset."""
        found = [source.generate for source in self.sources.values() if source.generate]
        return {generate.model for generate in found if not generate.url}

    @model_validator(mode="after")
    def _can_be_streamed(self):
        if self.stream is None:
            return self
        if self.kind in ("preference", "prompts"):
            raise ValueError(f"'{self.kind}' records cannot be streamed; remove 'stream'")
        if self.deduplicate.near:
            raise ValueError(
                "near duplicates cannot be found in a stream; "
                "set deduplicate: {near: false}, or remove 'stream'"
            )
        return self
