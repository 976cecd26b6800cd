"""New tokens and embeddings: trained, saved with the adapter, and the same however they load."""

import json

import pytest
import torch
from peft import PeftModel
from runs import settings
from safetensors import safe_open
from test_models import given
from test_training_tuning import write_splits
from tiny import make_model, make_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.training.fetch import fetch
from anneal.training.job import Job
from anneal.training.merge import merge_run
from anneal.training.models import load_model
from anneal.training.train import write_run
from anneal.training.tuning import tuned

NEW = ["<tool>", "<call>"]


@pytest.fixture
def grown(tmp_path):
    """Make a base whose vocabulary has two new tokens: folder, and their ids."""

    def make(tied: bool):
        make_model(make_tokenizer(tmp_path / "source"), tied=tied)
        folder = tmp_path / "base"
        folder.mkdir()
        facts = fetch(given(path=str(tmp_path / "source"), add_tokens=NEW), folder, [])
        (folder / "manifest.json").write_text(json.dumps({"facts": facts}))
        return folder, facts["added_tokens"]

    return make


def learn(model, ids: torch.Tensor) -> None:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=1.0)
    for _ in range(3):
        optimiser.zero_grad()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimiser.step()


@torch.no_grad()
def logits(model, ids) -> torch.Tensor:
    return model.eval()(input_ids=ids, use_cache=False).logits


@pytest.mark.parametrize("train_all", [False, True], ids=["new rows", "all rows"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_live_reloaded_and_merged_models_agree(grown, tmp_path, tied, train_all):
    base, new = grown(tied)
    given = settings()
    given["tuning"]["train_embeddings"] = train_all
    job = Job(given, base, write_splits(tmp_path / "splits"), tmp_path / "checkpoints")
    ids = torch.tensor([[5, new[0], 40, 41, new[1], 7]])
    before = logits(job.load_base(), ids)
    trainer = job.make_trainer()
    learn(job.model, ids)
    write_run(job, trainer, tmp_path / "run")
    live, folder = logits(job.model, ids), tmp_path / "run" / "model"
    with_peft = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder)
    merge_run(folder, tmp_path / "merged")
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert not torch.allclose(before, live, atol=0.1)
    for other in (load_model(folder), with_peft, whole):
        assert torch.allclose(logits(other, ids), live, atol=1e-4)
    assert whole.config.tie_word_embeddings == tied
    sides = whole.get_input_embeddings().weight, whole.get_output_embeddings().weight
    assert (sides[0].data_ptr() == sides[1].data_ptr()) == tied
    assert len(AutoTokenizer.from_pretrained(tmp_path / "merged")) <= len(sides[0])


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_only_the_new_rows_are_trained_and_saved(grown, tmp_path, tied):
    base, new = grown(tied)
    model = tuned(load_model(base), settings()["tuning"], new_tokens=tuple(new))
    old = load_model(base).get_input_embeddings().weight.detach().clone()
    learn(model, torch.tensor([[5, new[0], 40, 41, new[1], 7]]))
    model.save_pretrained(tmp_path / "adapter")
    with safe_open(tmp_path / "adapter" / "adapter_model.safetensors", "pt") as tensors:
        rows = [n for n in tensors.keys() if "lora" not in n]  # noqa: SIM118
        sizes = [tensors.get_slice(n).get_shape() for n in rows]
    assert sizes == [[2, 32]] * (1 if tied else 2)
    changed = model.merge_and_unload().get_input_embeddings().weight
    kept = [i for i in range(len(old)) if i not in new]
    assert torch.equal(changed[kept], old[kept])
    assert not torch.equal(changed[new], old[new])
