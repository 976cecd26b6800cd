"""Section `tuning` of a run: which weights are trained."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Name, Section, Share

LORA = ("lora", "dora", "qlora")
VIRTUAL = ("prompt", "prefix")
MERGEABLE = (*LORA, "full", "ia3")


class Tuning(Section):
    """Which weights are trained."""

    kind: Literal[
        *("lora", "full", "dora", "qlora", "adapter", "prompt", "prefix", "ia3", "xlora")
    ] = Field(
        "lora",
        description="`full`: all weights; `lora`; `dora`: LoRA with a magnitude of its own; "
        "`qlora`: LoRA on a base in 4-bit NF4, doubly quantised; `adapter`: bottleneck layers "
        "behind each block's MLP; `prompt`: virtual tokens; `prefix`: virtual keys and values; "
        "`ia3`: rescaled activations; `xlora`: a classifier that mixes the LoRA adapters of other "
        "runs, token by token.",
    )
    r: int = Field(16, ge=1, description="Rank of the LoRA matrices.")
    alpha: int = Field(32, ge=1, description="LoRA scaling numerator: the update is alpha / r.")
    dropout: Share = Field(
        0.05,
        description="Dropout before the LoRA matrices. Unset, `dpo`, `kto`, `orpo` and `reward` "
        "train without any dropout, so that answers are compared without noise.",
    )
    target_modules: str | list[str] = Field(
        "all-linear",
        description="Modules with an adapter; `all-linear` leaves out only the head. Read by the "
        "LoRA kinds; by `adapter` if it isn't `all-linear`, which stands for each block's MLP.",
    )
    bottleneck: int = Field(64, ge=1, description="Width of the layers of `adapter`.")
    virtual_tokens: int = Field(20, ge=1, description="Virtual tokens of `prompt` and `prefix`.")
    train_embeddings: bool = Field(
        False, description="Train and save all embeddings and the head beside a LoRA adapter."
    )
    adapters: list[Name] = Field(
        default_factory=list, description="Runs whose LoRA adapters `xlora` mixes."
    )

    @model_validator(mode="after")
    def _settings_fit_the_kind(self):
        if self.train_embeddings and self.kind not in LORA:
            raise ValueError(f"train_embeddings goes with {', '.join(LORA)}, not '{self.kind}'")
        if (self.kind == "xlora") != bool(self.adapters):
            raise ValueError("kind 'xlora' and 'adapters' go together")
        return self
