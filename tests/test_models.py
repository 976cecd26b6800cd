"""Base models: brought into a local folder, their sources never written to."""

import json
import shutil

import pytest
import torch
from tiny import make_model, make_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.errors import UserError
from anneal.training.fetch import fetch


def given(**model) -> dict:
    """A model's section of the configuration."""
    keys = ("path", "package", "gguf", "hub", "revision", "chat_template")
    return dict.fromkeys(keys) | {"special_tokens": {}, "add_tokens": []} | model


def test_a_local_model_is_linked_not_copied_and_its_folder_stays_as_it_was(tiny_model, tmp_path):
    before = {p.name: p.read_bytes() for p in tiny_model.iterdir()}
    fetch(given(path=str(tiny_model)), tmp_path, ["chat"])
    assert (tmp_path / "model.safetensors").is_symlink()
    assert {p.name: p.read_bytes() for p in tiny_model.iterdir()} == before
    assert AutoModelForCausalLM.from_pretrained(tmp_path) is not None


def test_a_template_of_the_users_replaces_the_models_own(tiny_model, tmp_path):
    template = tmp_path / "mine.jinja"
    template.write_text("{{ messages[0]['content'] }}")
    fetch(given(path=str(tiny_model), chat_template=str(template)), tmp_path, ["chat"])
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == template.read_text()


def test_a_model_without_template_is_refused_only_where_one_is_needed(tmp_path):
    source = make_tokenizer(tmp_path / "source", template=None)
    make_model(source)
    (tmp_path / "out").mkdir()
    fetch(given(path=str(source)), tmp_path / "out", ["alpaca"])
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="has no chat template"):
        fetch(given(path=str(source)), tmp_path / "out", ["chat"])


def test_pickled_weights_are_not_opened(tmp_path):
    source = make_tokenizer(tmp_path / "source")
    (source / "pytorch_model.bin").write_bytes(b"not opened")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="convert the weights to safetensors"):
        fetch(given(path=str(source)), tmp_path / "out", [])


@pytest.mark.parametrize("tied", [True, False])
def test_new_tokens_start_at_the_mean_on_both_sides(tmp_path, tied):
    source = make_tokenizer(tmp_path / "source")
    model = make_model(source, tied=tied)
    before = (source / "model.safetensors").read_bytes()
    (tmp_path / "out").mkdir()
    wanted = {"special_tokens": {"pad_token": "<pad>"}, "add_tokens": ["<tool>", "Zürich"]}
    fetch(given(path=str(source), **wanted), tmp_path / "out", ["chat"])
    grown = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    old = len(AutoTokenizer.from_pretrained(source))
    assert len(tokenizer) == old + 3
    for side in ("get_input_embeddings", "get_output_embeddings"):
        weight = getattr(grown, side)().weight
        assert torch.allclose(weight[old : old + 3], weight[:old].mean(0).expand(3, -1), atol=1e-6)
        assert torch.equal(weight[:old], getattr(model, side)().weight[:old])
    assert grown.config.tie_word_embeddings == tied
    assert tokenizer.pad_token == "<pad>"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["pad_token_id"] == old
    assert (source / "model.safetensors").read_bytes() == before
