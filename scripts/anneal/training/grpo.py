"""GRPO and RLOO: several answers to each prompt, and those better than their siblings get likelier.

Both are TRL's trainers (Shao 2024, arXiv 2402.03300; Ahmadian 2024, arXiv 2402.14740). They are
given prompts as token ids, the reward of the run, an order that survives a resume, and our names.
"""

from collections import defaultdict

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.trainer.utils import RepeatSampler

from anneal.training.arguments import arguments
from anneal.training.job import Job
from anneal.training.judge import stop_token
from anneal.training.rewards import Reward, make_reward

# What is logged, by the names under which TRL notes it. Its KL is a mean over tokens.
CURVES = {
    **{"reward": "reward", "reward_std": "reward_std", "kl": "kl_per_token", "entropy": "entropy"},
    "clip_ratio/region_mean": "clip_fraction",
    "completions/mean_length": "answer_length",
    "completions/clipped_ratio": "unfinished",
}


def make_trainer(job: Job):
    """The trainer of one run; the reward comes first, for it may be refused."""
    return group_trainer(job, make_reward(job))


def group_trainer(job: Job, reward: Reward):
    """A `GroupGrpoTrainer` or `GroupRlooTrainer` that trains `job.model` towards a reward."""
    stop_token(job)
    config, trainer = METHODS[job.settings["method"]]
    made = trainer(
        model=job.model,
        reward_funcs=[_by_name(reward)],
        args=config(**_arguments(job)),
        train_dataset=_prompts(job.train_rows),
        eval_dataset=_prompts(job.eval_rows),
        processing_class=job.tokenizer,
    )
    # TRL copies a fresh adapter as reference; it would be saved, and the model without any is equal
    if "ref" in getattr(job.model, "peft_config", {}):
        job.model.delete_adapter("ref")
    return made


class GroupTrainer:
    """Goes before one of TRL's trainers."""

    def _tokenize_prompts(self, prompts: list[list[int]]):
        """Prompts are token ids already; there are no images."""
        return prompts, None, {}

    def _get_train_sampler(self, dataset=None):
        made = super()._get_train_sampler(dataset)
        counts = (made.mini_repeat_count, made.batch_size, made.repeat_count)
        return OrderOfPass(made.data_source, *counts, seed=made.seed)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        mode = "train" if self.model.training else "eval"
        noted = self._metrics[mode]
        kept = {new: noted[old] for old, new in CURVES.items() if noted[old]}
        self._metrics[mode] = defaultdict(list, kept)
        super().log(logs, start_time)

    def create_model_card(self, *_, **__) -> None:
        """A checkpoint holds training state alone."""


class OrderOfPass(RepeatSampler):
    """An order of prompts that depends on the seed and the pass, not on passes seen before."""

    def set_epoch(self, epoch: int) -> None:
        self.generator.manual_seed(self.seed + epoch)


class GroupGrpoTrainer(GroupTrainer, GRPOTrainer):
    """Advantages relative to the group, in its standard deviations."""


class GroupRlooTrainer(GroupTrainer, RLOOTrainer):
    """Advantages relative to the mean of the other answers."""


METHODS = {"grpo": (GRPOConfig, GroupGrpoTrainer), "rloo": (RLOOConfig, GroupRlooTrainer)}


def _arguments(job: Job) -> dict:
    online, size = job.settings["online"], job.training["per_device_train_batch_size"]
    group = online["generations"]
    return {
        **arguments(job),
        "per_device_eval_batch_size": group * max(1, size // group),
        "num_generations": group,
        "max_completion_length": online["max_new_tokens"],
        "temperature": online["temperature"],
        "beta": online["beta"],
        "disable_dropout": True,
    }


def _prompts(rows: Dataset) -> Dataset:
    return rows.select_columns(["input_ids"]).rename_column("input_ids", "prompt")


def _by_name(reward: Reward):
    def of_answers(prompts, completion_ids, **_):
        return reward(prompts, completion_ids)

    return of_answers
