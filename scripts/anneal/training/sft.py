"""Learning from text: `sft` from responses, `pretrain` and `continue` from every token."""

from peft import load_peft_weights, set_peft_model_state_dict
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from anneal.training.arguments import arguments
from anneal.training.data import Collator
from anneal.training.job import Job
from anneal.training.loss import evaluate_loss, token_losses
from anneal.training.sharding import started


class SftTrainer(Trainer):
    """The Trainer with our token-normalised loss, and evaluation that keeps sums, not logits."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        losses, learned, _ = token_losses(model, inputs)
        if num_items_in_batch is None:
            return losses.sum() / learned.sum()
        # gradients are averaged over the processes, and the tokens are those of all of them
        processes = self.accelerator.num_processes // self.get_tp_size()
        return losses.sum() / num_items_in_batch * processes

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        """Virtual tokens too, which PEFT would load for inference only."""
        if getattr(self.model, "active_peft_config", None) and model is None:
            weights = load_peft_weights(resume_from_checkpoint, device=str(self.args.device))
            set_peft_model_state_dict(self.model, weights)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def evaluate(self, *_, **__) -> dict[str, float]:
        batches = DataLoader(
            self.eval_dataset, self.args.eval_batch_size, collate_fn=self.data_collator
        )
        batches = (self._prepare_inputs(batch) for batch in batches)
        model = self.model_wrapped if self.is_deepspeed_enabled else self.model
        metrics = evaluate_loss(model, batches, self.get_tp_size())
        metrics = {f"eval_{name}": value for name, value in metrics.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


def make_trainer(job: Job) -> SftTrainer:
    """The trainer of one run."""
    args = started(TrainingArguments(**arguments(job)), job.strategy)
    return SftTrainer(
        model=job.model,
        args=args,
        data_collator=Collator(job.tokenizer.pad_token_id),
        train_dataset=job.train_data,
        eval_dataset=job.eval_rows,
    )
