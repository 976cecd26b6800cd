"""Section `generate` of a source: rows that a language model writes, after some written by hand."""

from pydantic import Field, model_validator

from anneal.config.address import check_address
from anneal.config.base import Section, Share

# How the answers are got; no answer depends on it.
MANNER = (
    *("key_env", "max_requests", "concurrency", "timeout", "threads"),
    *("prompt_price", "answer_price"),
)
UNSEEN = [
    *("image", "images", "picture", "pictures", "photo", "photograph", "video", "audio"),
    *("attached", "attachment", "screenshot", "hyperlink", "url"),
]


class Generate(Section):
    """A model is shown some tasks and writes more, which are kept if they are new and sound."""

    seeds: str = Field(
        description="JSON lines of tasks written by hand: `instruction`, `input` (may be missing) "
        "and `output`; or Self-Instruct's `instances`, of which the first counts."
    )
    count: int = Field(ge=1, description="Tasks to keep.")
    model: str = Field(
        description="Name of the model at the endpoint; without `url`, one of `models`, "
        "which then answers in the step itself."
    )
    url: str | None = Field(
        None,
        description="Base address of an OpenAI-compatible endpoint, "
        "such as `http://localhost:8000/v1`.",
    )
    key_env: str | None = Field(
        None,
        description="Name of the environment variable that holds the endpoint's key. "
        "The key itself is never written anywhere.",
    )
    shown: int = Field(8, ge=1, description="Tasks that a request shows.")
    shown_new: int = Field(
        2, ge=0, description="How many of them are generated ones, once there are some."
    )
    wanted: int = Field(8, ge=1, description="Tasks that a request asks for.")
    round: int = Field(
        16,
        ge=1,
        description="Requests that are drawn from the same tasks; what they bring is shown from "
        "the next round on.",
    )
    max_requests: int = Field(
        1000, ge=1, description="Requests after which the step gives up; it can be raised later."
    )
    seed: int = Field(0, ge=0, description="Of the draws, and with its number of each request.")
    temperature: float = Field(1, ge=0, description="Of sampling.")
    top_p: float = Field(1, gt=0, le=1, description="Share of the likeliest tokens to draw from.")
    max_tokens: int = Field(2048, ge=1, description="Longest answer; what it cuts is not kept.")
    max_similarity: Share = Field(
        0.7,
        description="ROUGE-L of two instructions from which on the later one is not new.",
    )
    min_words: int = Field(3, ge=1, description="Words of the shortest instruction.")
    max_words: int = Field(150, ge=1, description="Words of the longest instruction.")
    banned: list[str] = Field(
        UNSEEN, description="Words of instructions that a model of text cannot follow."
    )
    concurrency: int = Field(8, ge=1, description="Requests under way at once.")
    timeout: float = Field(300, gt=0, description="Seconds that a request may take.")
    threads: int = Field(2, ge=1, description="CPU threads of a model that answers in the step.")
    prompt_price: float = Field(0, ge=0, description="Price of a million tokens of prompts.")
    answer_price: float = Field(0, ge=0, description="Price of a million tokens of answers.")

    @model_validator(mode="after")
    def _is_consistent(self):
        if self.url:
            check_address(self.url, "key", "key_env")
        elif self.key_env:
            raise ValueError("'key_env' belongs to a 'url'")
        if self.min_words > self.max_words:
            raise ValueError("'min_words' is above 'max_words'")
        return self

    def settings(self) -> dict:
        """What decides which tasks come out."""
        return self.model_dump(exclude=set(MANNER))

    def manner(self) -> dict:
        return self.model_dump(include=set(MANNER))
