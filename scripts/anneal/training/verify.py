"""After saving, the folder is loaded as a user would: it must be the model that trained."""

import torch
from safetensors import safe_open

from anneal.errors import UserError
from anneal.training.data import prompt_and_answer
from anneal.training.job import Job
from anneal.training.models import DTYPES, load_model
from anneal.training.sharding import plain, whole

TOLERANCE, ROUGH = 1e-3, 5e-2
NEW_TOKENS, LONGEST = 64, 1024


@torch.no_grad()
def live_logits(trainer, rows) -> torch.Tensor:
    """Logits of the model that trained, on the first row; all processes compute them."""
    model = plain(trainer)
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        model = trainer.model_wrapped
    model.eval()
    return _logits(model, _first(rows))


@torch.no_grad()
def verify_saved(model, live: torch.Tensor, folder, job: Job) -> dict:
    """Compare the saved folder with the live model.

    Raises:
        UserError: tensors are missing, not finite or all zero, or logits differ.
    """
    check_tensors(folder)
    head = "causal" if model.can_generate() else "score"
    quantized = getattr(model, "is_loaded_in_4bit", False)
    precision = next(name for name, dtype in DTYPES.items() if dtype == model.dtype)
    tolerance = TOLERANCE
    if job.strategy.sharded and job.training["precision"] != "fp32":
        # shards compute in half precision, whatever they are saved in
        precision, tolerance = job.training["precision"], ROUGH
    saved = load_model(folder, precision, job.training["attention"], head, quantized).eval()
    difference = (live - _logits(saved, _first(job.train_rows))).abs().max().item()
    if not difference <= tolerance * max(1.0, live.abs().max().item()):
        raise UserError(
            str(folder), f"the saved model's logits differ by {difference:.3g}", "train again"
        )
    return {"logit_difference": difference}


def _first(rows) -> torch.Tensor:
    prompt, answer = prompt_and_answer(rows[0])
    return torch.tensor([(prompt + answer)[:LONGEST]])


def _logits(model, ids: torch.Tensor) -> torch.Tensor:
    device = next(model.parameters()).device
    logits = model(input_ids=ids.to(device), use_cache=False).logits
    return whole(logits).float().cpu()


def check_tensors(folder) -> None:
    """Raises UserError unless the folder has weights that are finite and not all zero."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        do = "merge the shards with `accelerate merge-weights`, or train again"
        raise UserError(str(folder), "no .safetensors weights were saved", do)
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            if not tensors.keys():
                raise UserError(str(file), "no tensor was saved", "train again")
            for name in tensors.keys():  # noqa: SIM118
                tensor = tensors.get_tensor(name)
                if tensor.numel() == 0 or not tensor.isfinite().all() or not tensor.any():
                    what = f"tensor {name} is empty, not finite, or all zero"
                    raise UserError(str(file), what, "train again; its gradient may not flow")


@torch.no_grad()
def samples(model, tokenizer, rows, count: int = 4) -> list[dict]:
    """What the trained model answers to the first held-out prompts, greedily.

    Returns:
        rows of `prompt`, `expected`, `answer` and whether the model `stopped` by itself.
    """
    model.eval()
    if not model.can_generate():
        return []
    return [_sample(model, tokenizer, rows[i]) for i in range(min(count, len(rows)))]


def _sample(model, tokenizer, row: dict) -> dict:
    asked, expected = prompt_and_answer(row)
    asked, expected = (asked, expected) if asked else (expected[:1], expected[1:])
    stop = expected[-1] if expected else tokenizer.eos_token_id
    prompt = torch.tensor([asked], device=model.device)
    ids = model.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=min(NEW_TOKENS, 2 * len(expected) + 8) if expected else NEW_TOKENS,
        do_sample=False,
        eos_token_id=stop,
        pad_token_id=tokenizer.pad_token_id,
    )[0, len(asked) :].tolist()
    return {
        "prompt": tokenizer.decode(asked),
        "expected": tokenizer.decode(expected),
        "answer": tokenizer.decode(ids),
        "stopped": ids[-1] == stop,
    }
