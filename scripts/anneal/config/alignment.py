"""Sections `preference` and `online` of a run: what aligns a model beyond its data."""

import re

from pydantic import Field, field_validator, model_validator

from anneal.config.base import Name, Section, Share


class Preference(Section):
    """Settings of `dpo`, `kto` and `orpo`."""

    beta: float = Field(
        0.1, gt=0, description="Strength of the pull to the reference; of the odds ratio in ORPO."
    )
    desirable_weight: float = Field(1.0, gt=0, description="KTO: weight of chosen answers.")
    undesirable_weight: float = Field(1.0, gt=0, description="KTO: weight of rejected answers.")


class Online(Section):
    """Settings of `ppo`, `grpo` and `rloo`, which learn from answers of their own."""

    reward_model: Name | None = Field(None, description="Run of method `reward` that scores.")
    reward_pattern: str | None = Field(
        None,
        description="Regular expression; an answer that matches it as a whole, blanks around it "
        "aside, is worth 1, any other 0.",
    )
    max_new_tokens: int = Field(64, ge=1, description="Longest answer, in tokens.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    generations: int = Field(
        4,
        ge=2,
        description="GRPO, RLOO: answers to each prompt; they divide the answers of a step, "
        "per_device_train_batch_size times gradient_accumulation_steps.",
    )
    beta: float = Field(0.05, ge=0, description="GRPO, RLOO: weight of the KL term.")
    kl_target: float = Field(
        6.0, gt=0, description="PPO: KL of a whole answer that the controller holds, in nats."
    )
    kl_coefficient: float = Field(0.2, gt=0, description="PPO: first coefficient of the KL.")
    kl_horizon: int = Field(
        1_000,
        ge=1,
        description="PPO: answers over which the coefficient adapts; rollout_size / kl_horizon is "
        "the controller's gain, 0.05 to 0.1 in Ziegler 2019.",
    )
    rollout_size: int = Field(
        64, ge=1, description="PPO: answers in a step, which is one batch of them learned from."
    )
    ppo_epochs: int = Field(4, ge=1, description="PPO: passes over the answers of a step.")
    clip_range: float = Field(0.2, gt=0, description="PPO: clipping of the policy's ratio.")
    clip_value: float = Field(0.2, gt=0, description="PPO: clipping of the value's change.")
    value_weight: float = Field(0.1, ge=0, description="PPO: weight of the value loss.")
    gamma: Share = Field(1.0, description="PPO: discount.")
    gae_lambda: Share = Field(0.95, description="PPO: lambda of the advantage estimate.")
    missing_eos_penalty: float = Field(
        1.0, ge=0, description="PPO: taken from the reward of an answer that does not end."
    )

    @field_validator("reward_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _one_reward(self):
        if self.reward_model and self.reward_pattern:
            raise ValueError("give one of 'reward_model' and 'reward_pattern'")
        return self
