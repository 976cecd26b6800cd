"""Section `models`: where the models come from that runs start with."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anneal.config.base import Name, Section, Share

SpecialToken = Literal["bos_token", "eos_token", "pad_token", "unk_token"]
ORIGINS = ("path", "package", "hub", "run", "combine", "scratch")
Scalar = Annotated[int | float | bool | str, Field(union_mode="left_to_right")]

# What makes a model that is not found ready: one module each, so that each has its own code digest.
MAKERS = {
    "run": "anneal.training.merge",
    "combine": "anneal.training.combine",
    "scratch": "anneal.training.scratch",
}


class Combine(Section):
    """One model out of the adapters of several runs on one base."""

    runs: dict[Name, float] = Field(min_length=1, description="Weight of each run's adapter.")
    kind: Literal["linear", "ties", "dare_linear", "dare_ties"] = Field(
        "linear",
        description="Of the changes that the adapters make to a weight matrix: `linear`: weighted "
        "sum; `ties`: small ones trimmed, signs elected (Yadav 2023); `dare_*`: some dropped at "
        "random, the rest rescaled (Yu 2024).",
    )
    density: Share = Field(0.5, gt=0, description="Share of values that ties and dare keep.")
    seed: int = Field(17, ge=0, description="Seed of what dare drops.")


class Scratch(Section):
    """A new model with random weights, and a tokenizer trained on a dataset."""

    dataset: Name = Field(description="Dataset whose training rows the tokenizer is trained on.")
    architecture: str = Field(
        "llama", description="Model type as transformers names it, e.g. `llama` or `gpt2`."
    )
    config: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Values of the architecture's configuration, e.g. `hidden_size: 576`.",
    )
    vocab_size: int = Field(8192, ge=300, description="Tokens of the byte-level BPE tokenizer.")
    seed: int = Field(17, ge=0, description="Seed of the random weights.")


class Model(Section):
    """Where a model comes from. Nothing is downloaded unless `hub` says so."""

    path: str | None = Field(None, description="Local folder in the Hugging Face layout.")
    package: str | None = Field(
        None, description="Installed Python package that carries the model as a file."
    )
    gguf: str | None = Field(None, description="GGUF file inside the package or folder.")
    hub: str | None = Field(None, description="Hub id to download, e.g. `org/name`.")
    revision: str | None = Field(None, description="Commit of the Hub repository to pin.")
    run: Name | None = Field(
        None,
        description="Run of this configuration whose result is the model, its adapter merged: "
        "so `dpo` or `ppo` starts from an `sft` run.",
    )
    combine: Combine | None = Field(None, description="Adapters of several runs, combined.")
    scratch: Scratch | None = Field(None, description="A new model, for method `pretrain`.")
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
        given = [name for name in ORIGINS if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(ORIGINS)}")
        if self.package and not self.gguf:
            raise ValueError("'package' needs the file's name in 'gguf'")
        return self

    def maker(self) -> str | None:
        """The module that makes this model; None if it only has to be fetched."""
        return next((MAKERS[name] for name in MAKERS if getattr(self, name)), None)

    def runs(self) -> list[str]:
        """Runs whose results this model is made of."""
        return [self.run] if self.run else sorted(self.combine.runs) if self.combine else []
