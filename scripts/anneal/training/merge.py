"""A run's result as a model of its own: the adapter merged, and checked to answer the same."""

import shutil
from pathlib import Path

import torch
from peft import PeftConfig

from anneal.config.tuning import MERGEABLE
from anneal.errors import UserError
from anneal.training.card import write_card
from anneal.training.models import load_model, load_tokenizer, put_adapter, trained_on_nf4

TOLERANCE = 1e-3


def make_model(model: dict, origins: list[Path], folder: Path) -> None:
    """Write the model of one run and its card; `origins` are the run's and its splits' manifests.

    Raises:
        UserError: the adapter is no change of weights, or the merged model gives other logits.
    """
    merge_run(origins[0].parent / "model", folder)
    write_card(folder, model["made_of"], origins, "The adapter is merged into the weights.")


def merge_run(run: Path, folder: Path) -> None:
    """Write a run's model with its adapter merged, tokenizer and template beside it.

    Args:
        run: `model/` of the run, an adapter or a whole model.

    Raises:
        UserError: the adapter is no change of weights, or the merged model gives other logits.
    """
    before = _answer(load_model(run), run)
    model = merged(run)
    difference = (before - _answer(model, run)).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, before.abs().max().item()):
        what = f"the merged model's logits differ by {difference:.3g}"
        raise UserError(str(run), what, "train the run again, or start from its base")
    save_whole(model, run, folder)


def merged(run: Path):
    """The model of a run, in float32, its adapter merged into the weights."""
    if not (run / "adapter_config.json").is_file():
        return load_model(run)
    config = PeftConfig.from_pretrained(str(run))
    if config.peft_type not in ("LORA", "IA3"):
        what = f"an adapter of kind {config.peft_type} cannot be merged into weights"
        raise UserError(str(run), what, f"tune by one of {', '.join(MERGEABLE)}")
    return put_adapter(whole_base(run), run).merge_and_unload()


def whole_base(run: Path):
    """The base of an adapter in float32; one in 4 bits as what its bits stand for."""
    base = PeftConfig.from_pretrained(str(run)).base_model_name_or_path
    if trained_on_nf4(run):
        return load_model(base, quantized=True).dequantize()
    return load_model(base)


def save_whole(model, run: Path, folder: Path) -> None:
    """Write a model and, beside it, what was saved with a run."""
    model.save_pretrained(folder, safe_serialization=True)
    copy_tokenizer(run, folder)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Tokenizer, chat template and generation settings, as they were saved with the run."""
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for name in (*names, "generation_config.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


@torch.no_grad()
def _answer(model, run: Path) -> torch.Tensor:
    ids = torch.tensor([load_tokenizer(run)("The quick brown fox").input_ids])
    return model.eval()(input_ids=ids, use_cache=False).logits
