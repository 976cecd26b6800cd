"""Section `tuning` of a run: which weights are trained."""

from typing import Literal

from pydantic import Field

from anneal.config.base import Section, Share


class Tuning(Section):
    """Which weights are trained."""

    kind: Literal["lora", "full", "dora", "qlora", "adapter", "prompt", "prefix", "ia3"] = Field(
        "lora",
        description="`full`: all weights; `lora`; `dora`: LoRA with a magnitude of its own; "
        "`qlora`: LoRA on a base in 4-bit NF4, doubly quantised; `adapter`: bottleneck layers "
        "behind each block; `prompt`: virtual tokens; `prefix`: virtual keys and values; "
        "`ia3`: rescaled activations.",
    )
    r: int = Field(16, ge=1, description="Rank of the LoRA matrices.")
    alpha: int = Field(32, ge=1, description="LoRA scaling numerator: the update is alpha / r.")
    dropout: Share = Field(
        0.05,
        description="Dropout before the LoRA matrices. Unset, `dpo`, `kto`, `orpo` and `reward` "
        "train without any dropout, so that answers are compared without noise.",
    )
    target_modules: str | list[str] = Field(
        "all-linear", description="Modules with an adapter; `all-linear` leaves out only the head."
    )
    bottleneck: int = Field(64, ge=1, description="Width of the layers of `adapter`.")
    virtual_tokens: int = Field(20, ge=1, description="Virtual tokens of `prompt` and `prefix`.")
    train_embeddings: bool = Field(
        False, description="Train and save all embeddings and the head beside an adapter."
    )
