"""Sections `format`, `tokenize`, `split` and `stream` of a dataset."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Section, Share


class Format(Section):
    """How a row becomes text."""

    style: Literal["chat", "alpaca", "completion", "template"] = Field(
        "chat",
        description="`chat`: the tokenizer's chat template; `alpaca`: the Stanford Alpaca prompt; "
        "`completion`: prompt and response as they are; `template`: `template_file`. "
        "Raw text is always learned as it is.",
    )
    template_file: str | None = Field(
        None,
        description="Jinja file that makes the prompt from `instruction`, `input` and `category`; "
        "the response and the end token follow it.",
    )
    strict_roles: Literal["fold", "reject"] = Field(
        "fold",
        description="Conversations that the template refuses: `fold` moves the system text into "
        "the first user turn and merges neighbours of one role; `reject` sets them aside.",
    )
    system: str | None = Field(
        None,
        description="System message put before each chat that has none. "
        "Unset leaves it to the template; an empty text is an empty message.",
    )

    @model_validator(mode="after")
    def _template_is_given(self):
        if (self.style == "template") != (self.template_file is not None):
            raise ValueError("style 'template' and 'template_file' go together")
        return self


class Tokenize(Section):
    """How text becomes token ids, and what is learned from them."""

    max_length: int = Field(512, ge=8, description="Longest sequence, in tokens.")
    truncation: Literal["drop", "right", "left", "split"] = Field(
        "drop",
        description="Rows that are too long: `drop` counts and drops them; `right` cuts the "
        "response's end, without a false end token, and drops rows that lose all of it; `left` "
        "cuts the prompt's beginning; `split` makes several rows of it (raw text only).",
    )
    packing: bool = Field(
        True, description="Pack several rows into one sequence; rows do not see each other."
    )


class Split(Section):
    """Which rows train, which steer the training, and which judge the result."""

    train: Share = Field(0.8, description="Share of training rows.")
    eval: Share = Field(0.1, description="Share of rows for evaluation during training.")
    test: Share = Field(0.1, description="Share of held-out rows.")
    seed: str = Field("anneal", description="Salt of the stable hash that assigns rows.")
    group_by: list[str] = Field(
        default_factory=list,
        description="Columns of the raw rows whose equal values stay in one split, e.g. `thread`.",
    )
    min_rows: int = Field(1, ge=0, description="Fewest rows in each split; fewer stop the run.")
    max_deviation: Share = Field(
        0.05, description="Largest difference of a split's real share from the share asked for."
    )

    @model_validator(mode="after")
    def _shares_add_up(self):
        if abs(self.train + self.eval + self.test - 1) > 1e-6:
            raise ValueError("train, eval and test must add up to 1")
        return self


class Stream(Section):
    """A dataset that is read while training. It needs `max_steps`, and no near duplicates."""

    eval_rows: int = Field(
        500, ge=1, description="Rows for evaluation during training: the first ones met."
    )
    test_rows: int = Field(200, ge=1, description="Held-out rows: the first ones met.")
    buffer_rows: int = Field(
        2_000, ge=1, description="Rows that are held to be shuffled and packed together."
    )
