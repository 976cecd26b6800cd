"""Sections `preference` and `online` of a run: what aligns a model beyond its data."""

from pydantic import Field, model_validator

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
        None, description="Regular expression; an answer that matches it as a whole is worth 1."
    )
    max_new_tokens: int = Field(64, ge=1, description="Longest answer, in tokens.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    generations: int = Field(4, ge=2, description="GRPO, RLOO: answers to each prompt.")
    beta: float = Field(0.05, ge=0, description="GRPO, RLOO: weight of the KL term.")
    kl_target: float = Field(
        6.0, gt=0, description="PPO: KL of a whole answer that the controller holds, in nats."
    )
    kl_coefficient: float = Field(0.2, gt=0, description="PPO: first coefficient of the KL.")
    kl_horizon: int = Field(10_000, ge=1, description="PPO: answers over which it adapts.")
    rollout_size: int = Field(64, ge=1, description="PPO: answers between two updates.")
    ppo_epochs: int = Field(4, ge=1, description="PPO: passes over each batch of answers.")
    clip_range: float = Field(0.2, gt=0, description="PPO: clipping of the policy's ratio.")
    clip_value: float = Field(0.2, gt=0, description="PPO: clipping of the value's change.")
    value_weight: float = Field(0.1, ge=0, description="PPO: weight of the value loss.")
    gamma: Share = Field(1.0, description="PPO: discount.")
    gae_lambda: Share = Field(0.95, description="PPO: lambda of the advantage estimate.")
    missing_eos_penalty: float = Field(
        1.0, ge=0, description="PPO: taken from the reward of an answer that does not end."
    )

    @model_validator(mode="after")
    def _one_reward(self):
        if self.reward_model and self.reward_pattern:
            raise ValueError("give one of 'reward_model' and 'reward_pattern'")
        return self
