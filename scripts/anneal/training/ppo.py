"""PPO: a model answers prompts, a reward judges, and the answers that paid become likelier.

One step is one batch of answers and `ppo_epochs` passes over it (Ziegler 2019, arXiv 1909.08593).
Four models play: the policy that is trained, its frozen start (the reference, from which a KL keeps
it), the critic that tells what an answer promises, and the reward. The loop is our own and reads
top to bottom; the Trainer lends its optimiser, checkpoints, logs and callbacks.
"""

import math
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments
from trl.trainer.utils import disable_dropout_in_model

from anneal.errors import UserError
from anneal.training.arguments import arguments
from anneal.training.critic import make_critic
from anneal.training.job import Job
from anneal.training.judge import Judge
from anneal.training.ppo_terms import (
    advantages_and_returns,
    next_coefficient,
    policy_loss,
    token_rewards,
    value_loss,
    whitened,
)
from anneal.training.rewards import Reward, make_reward
from anneal.training.rollouts import answer_logprobs, shuffled

STATE = "ppo.pt"
SAME = 1e-5


def make_trainer(job: Job) -> "PpoTrainer":
    """The trainer of one run; the reward comes first, for it may be refused."""
    return PpoTrainer(job, make_reward(job))


class PpoTrainer(Trainer):
    """Trains `job.model` towards a reward; behaves as a Trainer for the flow of a run."""

    def __init__(self, job: Job, reward: Reward):
        super().__init__(
            model=job.model,
            args=TrainingArguments(**arguments(job)),
            train_dataset=job.train_rows,
            eval_dataset=job.eval_rows,
        )
        self.settings = job.settings["online"]
        self.judge = Judge(job, reward).to(self.args.device)
        self.critic = make_critic(job).to(self.args.device)
        self.coefficient = self.settings["kl_coefficient"]
        for model in (self.model, self.critic):
            disable_dropout_in_model(model)

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        self.begin(resume_from_checkpoint)
        while self.state.global_step < self.state.max_steps:
            batch, curves = self.roll_out()
            curves |= self.learn(batch) | {"learning_rate": self.lr_scheduler.get_last_lr()[0]}
            self.lr_scheduler.step()
            self.state.global_step += 1
            self.end_step(curves)
            if self.control.should_training_stop:
                break
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    @torch.no_grad()
    def roll_out(self) -> tuple[dict, dict[str, float]]:
        """Answers to the next prompts, with all that the updates compare themselves to; curves."""
        judged = self.judged(self.next_prompts(), sample=True)
        answers, settings = judged.answers, self.settings
        parts = answers.split(self.args.per_device_train_batch_size)
        with self.accelerator.autocast():
            values = torch.cat([self.critic(part) for part in parts])
        scores = judged.scores - settings["missing_eos_penalty"] * ~answers.stopped
        rewards = token_rewards(scores, judged.kl, answers.mask, self.coefficient)
        advantages, returns = advantages_and_returns(
            rewards, values, answers.mask, settings["gamma"], settings["gae_lambda"]
        )
        curves = self.means(judged.curves()) | {"kl_coefficient": self.coefficient}
        self.coefficient = next_coefficient(
            self.coefficient,
            curves["kl"],
            settings["kl_target"],
            settings["rollout_size"],
            settings["kl_horizon"],
        )
        batch = {
            "answers": answers,
            "logprobs": judged.logprobs,
            "values": values,
            "advantages": whitened(advantages, answers.mask),
            "returns": returns,
        }
        return batch, curves

    def learn(self, batch: dict) -> dict[str, float]:
        """`ppo_epochs` passes over a batch of answers, an update for every few micro-batches."""
        size, mask = self.args.per_device_train_batch_size, batch["answers"].mask
        sums = dict.fromkeys(("policy_loss", "value_loss", "clip_fraction"), 0.0)
        norms = []
        self.model.train()
        self.critic.train()
        for _ in range(self.settings["ppo_epochs"]):
            order = torch.randperm(len(mask))
            for rows in order.split(size * self.args.gradient_accumulation_steps):
                tokens = mask[rows].sum()
                for micro in rows.split(size):
                    found = self.losses(batch, micro)
                    loss = found["policy_loss"]
                    loss = loss + self.settings["value_weight"] * found["value_loss"]
                    self.accelerator.backward(loss / tokens)
                    sums = {name: total + found[name].detach() for name, total in sums.items()}
                norms.append(self.update())
        tokens = self.settings["ppo_epochs"] * mask.sum()
        means = self.means({name: total / tokens for name, total in sums.items()})
        return means | {"grad_norm": sum(norms) / len(norms)}

    def losses(self, batch: dict, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Sums over the real tokens of some of the answers."""
        answers, settings = batch["answers"][rows], self.settings
        with self.accelerator.autocast():
            logprobs, _ = answer_logprobs(self.model_wrapped, answers, settings["temperature"])
            values = self.critic_wrapped(answers)
        old, advantages = batch["logprobs"][rows], batch["advantages"][rows]
        clip = settings["clip_range"]
        surrogate, clipped = policy_loss(logprobs, old, advantages, answers.mask, clip)
        old, returns = batch["values"][rows], batch["returns"][rows]
        error = value_loss(values, old, returns, answers.mask, settings["clip_value"])
        return {"policy_loss": surrogate, "value_loss": error, "clip_fraction": clipped}

    def update(self) -> float:
        norm = self.accelerator.clip_grad_norm_(self.trained(), self.args.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm.item()

    def end_step(self, curves: dict[str, float]) -> None:
        self.state.epoch = self.state.global_step / self.steps_a_pass()
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
        if self.control.should_log:
            self.log(curves)
        if self.control.should_evaluate:
            self.evaluate()
        if self.control.should_save:
            self._save_checkpoint(self.model_wrapped, trial=None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def evaluate(self, *_, **__) -> dict[str, float]:
        """Means over the greedy answers to the fixed evaluation prompts."""
        judged = self.judged(self.eval_dataset["input_ids"], sample=False)
        metrics = {f"eval_{k}": value for k, value in self.means(judged.curves()).items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def judged(self, prompts: list[list[int]], sample: bool):
        with self.accelerator.autocast():
            return self.judge(prompts, sample)

    def next_prompts(self) -> list[list[int]]:
        """This process's share of the prompts that the step answers."""
        size, processes = self.settings["rollout_size"], self.accelerator.num_processes
        start = self.state.global_step * size
        rows = shuffled(len(self.train_dataset), start, size, self.args.seed)
        return self.train_dataset[rows[self.accelerator.process_index :: processes]]["input_ids"]

    def means(self, values: dict[str, torch.Tensor]) -> dict[str, float]:
        """The mean of each value over all processes."""
        return {k: v.item() for k, v in self.accelerator.reduce(values, "mean").items()}

    def begin(self, checkpoint: str | None) -> None:
        """Optimiser, schedule and devices; the state of the checkpoint where there is one."""
        self.must_equal_reference()
        passes, steps = self.args.num_train_epochs, self.args.max_steps
        steps = steps if steps > 0 else math.ceil(passes * self.steps_a_pass())
        self._init_training_state(steps, math.ceil(self.steps_a_pass()), passes, checkpoint, None)
        if self.args.activation_checkpointing:
            for model in (self.model, self.critic.model):
                model.activation_checkpointing_enable(self.args.activation_checkpointing_kwargs)
        self.create_optimizer()
        self.create_scheduler(steps)
        self.model_wrapped, self.critic_wrapped, self.optimizer = self.accelerator.prepare(
            self.model, self.critic, self.optimizer
        )
        if checkpoint:
            self.resume(checkpoint)
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)

    def must_equal_reference(self) -> None:
        """Raises UserError if the policy is not yet, token by token, its own reference."""
        prompts = self.train_dataset[: self.args.per_device_train_batch_size]["input_ids"]
        difference = self.judged(prompts, sample=False).kl.abs().max().item()
        if not difference <= SAME:
            what = f"the policy differs from its reference by {difference:.3g} nats before step 1"
            do = "choose a tuning that starts as the model itself, such as lora or full"
            raise UserError("runs.*.tuning", what, do)

    def steps_a_pass(self) -> float:
        return len(self.train_dataset) / self.settings["rollout_size"]

    def create_optimizer(self, model=None):
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        options["weight_decay"] = self.args.weight_decay
        self.optimizer = kind(self.trained(), **options)
        return self.optimizer

    def trained(self) -> list[torch.nn.Parameter]:
        weights = (*self.model.parameters(), *self.critic.parameters())
        return [weight for weight in weights if weight.requires_grad]

    def _save_checkpoint(self, model, trial) -> None:
        """What the Trainer saves, and beside it the critic and the coefficient of the KL."""
        super()._save_checkpoint(model, trial)
        weights = {n: w for n, w in self.critic.named_parameters() if w.requires_grad}
        folder = Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        if self.args.should_save:
            torch.save({"critic": weights, "coefficient": self.coefficient}, folder / STATE)

    def resume(self, checkpoint: str) -> None:
        """Everything that the next step depends on, as it was when the checkpoint was written."""
        self._load_from_checkpoint(checkpoint)
        self._load_optimizer_and_scheduler(checkpoint)
        self._load_scaler(checkpoint)
        state = torch.load(Path(checkpoint, STATE), map_location="cpu", weights_only=True)
        self.critic.load_state_dict(state["critic"], strict=False)
        self.coefficient = state["coefficient"]
        self._load_rng_state(checkpoint)
