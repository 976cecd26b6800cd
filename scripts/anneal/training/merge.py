"""A run's result as a model of its own: the adapter merged, and checked to answer the same."""

import shutil
from pathlib import Path

import torch

from anneal.errors import UserError
from anneal.training.models import load_model, load_tokenizer

TOLERANCE = 1e-3


def merge_run(run: Path, folder: Path) -> None:
    """Write a run's model with its adapter merged, tokenizer and template beside it.

    Args:
        run: `model/` of the run, an adapter or a whole model.

    Raises:
        UserError: the merged model gives other logits.
    """
    model = load_model(run).eval()
    ids = torch.tensor([load_tokenizer(run)("The quick brown fox").input_ids])
    with torch.no_grad():
        before = model(input_ids=ids, use_cache=False).logits
        if hasattr(model, "merge_and_unload"):
            model = model.merge_and_unload()
        after = model(input_ids=ids, use_cache=False).logits
    difference = (before - after).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, before.abs().max().item()):
        what = f"the merged model's logits differ by {difference:.3g}"
        raise UserError(str(run), what, "train the run again, or start from its base")
    model.save_pretrained(folder, safe_serialization=True)
    copy_tokenizer(run, folder)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Tokenizer, chat template and generation settings, as they were saved with the run."""
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for name in (*names, "generation_config.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
