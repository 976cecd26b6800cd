"""Token-level cross entropy, with logits computed only where there is something to learn."""

import torch
from torch.nn import functional

from anneal.records import IGNORED
from anneal.training.processes import own_turns, total
from anneal.training.virtual import virtual_places


def token_losses(model, batch: dict) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Per-token losses of a batch of (rows, length).

    Position t predicts token t+1. The head runs only on positions that some row learns from,
    which spares most of its cost where prompts are long.

    Returns:
        losses (rows, kept), zero where a token is not learned; learned (rows, kept), bool;
        correct (rows, kept), bool: the most likely token is the right one.
    """
    targets = batch["labels"][:, 1:]
    kept = (targets != IGNORED).any(0).nonzero().squeeze(1)
    targets = targets[:, kept]
    before = virtual_places(model)
    # rows behind virtual tokens are not packed, and PEFT counts their positions itself
    inputs = {name: batch[name] for name in ("input_ids", "position_ids")[: 1 if before else 2]}
    logits = model(**inputs, use_cache=False, logits_to_keep=kept + before).logits.float()
    losses = functional.cross_entropy(
        logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
    )
    learned = targets != IGNORED
    return losses, learned, (logits.argmax(-1) == targets) & learned


@torch.no_grad()
def evaluate_loss(model, batches, tp_size: int = 1) -> dict[str, float]:
    """Loss per learned token of a whole split, `perplexity`, `token_accuracy` and `tokens`.

    Several processes take turns at the batches; `tp_size` of them share each.
    """
    was_training = model.training
    model.eval()
    loss, tokens, correct = 0.0, 0, 0
    for batch, mine in own_turns(batches, tp_size):
        losses, learned, right = token_losses(model, batch)
        if mine:
            loss += losses.double().sum().item()
            tokens += int(learned.sum())
            correct += int(right.sum())
    model.train(was_training)
    if tp_size == 1:
        loss, tokens, correct = total([loss, tokens, correct])
    mean = loss / max(tokens, 1)
    return {
        "loss": mean,
        "perplexity": float(torch.tensor(mean).exp()),
        "token_accuracy": correct / max(tokens, 1),
        "tokens": int(tokens),
    }
