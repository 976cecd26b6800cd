"""The adapters of several runs on one base, combined into one model.

What is combined are the changes that the adapters make to each weight matrix, the task vectors of
TIES (Yadav 2023, arXiv:2306.01708) and DARE (Yu 2024, arXiv:2311.03099). PEFT's own
`add_weighted_adapter` combines the two LoRA factors apart, which is not the sum of the changes.
"""

from pathlib import Path

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from peft.utils.merge_utils import dare_linear, dare_ties, task_arithmetic, ties

from anneal.training.card import write_card
from anneal.training.merge import save_whole, whole_base

BLENDS = {"ties": ties, "dare_linear": dare_linear, "dare_ties": dare_ties}


def make_model(model: dict, origins: list[Path], folder: Path) -> None:
    """Write the combined model and its card; `origins` begin with the runs' manifests, by name."""
    combine = model["combine"]
    runs = {
        name: path.parent / "model" for name, path in zip(model["made_of"], origins, strict=False)
    }
    save_whole(combined(runs, combine), runs[min(runs)], folder)
    shares = ", ".join(f"{name} {weight:g}" for name, weight in sorted(combine["runs"].items()))
    how = f"Adapters combined by `{combine['kind']}` with weights {shares}."
    write_card(folder, model["made_of"], origins, how)


@torch.no_grad()
def combined(runs: dict[str, Path], combine: dict):
    """The base with the combined change added to its weights.

    Args:
        runs: adapter folder of each run.
        combine: `runs` with the weight of each, `kind`, `density`, `seed`.
    """
    torch.manual_seed(combine["seed"])
    (first, folder), *others = sorted(runs.items())
    model = PeftModel.from_pretrained(whole_base(folder), str(folder), adapter_name=first)
    for name, folder in others:
        model.load_adapter(str(folder), name)
    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            names = [name for name in sorted(runs) if name in layer.lora_A]
            changes = [layer.get_delta_weight(name) for name in names]
            weights = torch.tensor([combine["runs"][name] for name in names])
            layer.get_base_layer().weight += _blended(changes, weights, combine)
    return model.unload()


def _blended(changes: list, weights: torch.Tensor, combine: dict) -> torch.Tensor:
    if combine["kind"] == "linear":
        return task_arithmetic(changes, weights)
    return BLENDS[combine["kind"]](changes, weights, combine["density"])
