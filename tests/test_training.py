"""Training: packed rows do not see each other, accumulation changes nothing, saves are complete."""

import json
import shutil

import numpy as np
import pytest
import torch
from runs import ROWS, STOP, sequence, settings, train

from anneal.errors import UserError
from anneal.records import IGNORED
from anneal.training.checkpoints import COMPLETE, broken, last_complete
from anneal.training.curves import read_curves
from anneal.training.data import Collator
from anneal.training.loss import evaluate_loss, token_losses
from anneal.training.models import load_model, load_tokenizer
from anneal.training.save import align_stop_token
from anneal.training.verify import check_tensors


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_loss_of_each_row_is_the_same_packed_and_alone(tiny_model, attention):
    model = load_model(tiny_model, attention=attention).eval()
    collate = Collator(0)

    def losses(sequences):
        with torch.no_grad():
            found, learned, _ = token_losses(model, collate(sequences))
        return found[learned]

    alone = torch.cat([losses([sequence([r])]) for r in ROWS])
    packed = losses([sequence(ROWS)])
    assert torch.allclose(alone, packed, atol=1e-5)
    padded = losses([sequence(ROWS[:2]), sequence(ROWS[2:])])
    assert torch.allclose(alone.sum(), padded.sum(), atol=1e-4)


def test_the_loss_is_that_of_the_model_itself(tiny_model):
    model = load_model(tiny_model).eval()
    batch = Collator(0)([sequence([r]) for r in ROWS])
    with torch.no_grad():
        losses, learned, _ = token_losses(model, batch)
        mask = (batch["labels"] != IGNORED) | (batch["input_ids"] != 0)
        whole = model(input_ids=batch["input_ids"], attention_mask=mask, labels=batch["labels"])
    assert torch.allclose(losses.sum() / learned.sum(), whole.loss, atol=1e-5)


def test_a_pad_token_that_is_also_the_end_keeps_the_real_end_learned():
    batch = Collator(pad_token_id=STOP)([sequence([ROWS[0]]), sequence([ROWS[1]])])
    assert batch["labels"][1, 8] == STOP
    assert (batch["labels"][1, 9:] == IGNORED).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_evaluation_does_not_depend_on_the_batch_size(tiny_model, size):
    model = load_model(tiny_model).eval()
    sequences = [sequence([r]) for r in ROWS]
    batches = [Collator(0)(sequences[i : i + size]) for i in range(0, len(sequences), size)]
    whole = evaluate_loss(model, [Collator(0)(sequences)])
    found = evaluate_loss(model, batches)
    assert found["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert found["tokens"] == whole["tokens"] == 18


@pytest.mark.parametrize("rows_per_step", [8, 6])
def test_accumulation_changes_neither_loss_nor_gradient(
    tiny_model, splits, tmp_path, rows_per_step
):
    found = []
    for micro in (1, 2, rows_per_step):
        training = {"max_steps": 2, "per_device_train_batch_size": micro}
        training |= {"gradient_accumulation_steps": rows_per_step // micro}
        given = settings(**training)
        given["tuning"]["dropout"] = 0.0
        out = tmp_path / str(micro)
        train(given, tiny_model, splits, out / "checkpoints", out / "run", "none")
        rows = read_curves(out / "run" / "metrics.jsonl")
        found.append([(r["loss"], r["grad_norm"]) for r in rows if "loss" in r])
    for other in found[1:]:
        assert np.allclose(found[0], other, atol=2e-4)


def test_a_resumed_run_ends_with_the_bytes_of_an_undisturbed_one(tiny_model, splits, tmp_path):
    given = settings()
    for name in ("whole", "resumed"):
        folder = tmp_path / name
        train(given, tiny_model, splits, folder / "checkpoints", folder / "run", "none")
    kept = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole" / "checkpoints", kept / "checkpoints")
    shutil.rmtree(kept / "checkpoints" / "checkpoint-6")
    (kept / "checkpoints" / "checkpoint-4" / COMPLETE).unlink()
    facts = train(given, tiny_model, splits, kept / "checkpoints", kept / "run", "none")
    assert facts["resumed_step"] == 3
    for name in ("model/adapter_model.safetensors", "model/adapter_config.json", "metrics.jsonl"):
        wanted = (tmp_path / "whole" / "run" / name).read_bytes()
        assert (tmp_path / "resumed" / "run" / name).read_bytes() == wanted
        assert (kept / "run" / name).read_bytes() == wanted
    assert [p.name for p in (kept / "checkpoints").glob("broken-*")] == ["broken-checkpoint-4.0"]


@pytest.mark.parametrize("more", [{}, {"early_stopping_patience": 1, "eval_steps": 1}])
def test_a_run_killed_behind_its_last_checkpoint_makes_no_step_more(
    tiny_model, splits, tmp_path, more
):
    given = settings(save_steps=1, max_steps=8, **more)
    if more:
        given["training"] |= {"learning_rate": 1.0, "lr_scheduler_type": "constant"}
    first = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    again = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "again", "none")
    assert again["resumed_step"] == again["steps"] == first["steps"]
    assert again["kept_step"] == first["kept_step"]
    for name in ("model/adapter_model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_length_grouping_trains_on_unpacked_rows(tiny_model, splits, tmp_path):
    given = settings(train_sampling_strategy="group_by_length", max_steps=2)
    facts = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    assert facts["steps"] == 2


def test_what_is_saved_opens_with_peft_alone(tiny_model, splits, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    train(settings(), tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    folder = tmp_path / "run" / "model"
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert PeftModel.from_pretrained(base, folder) is not None
    assert AutoTokenizer.from_pretrained(folder).chat_template == (
        tiny_model / "chat_template.jinja"
    ).read_text().rstrip("\n")


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_a_run_in_bf16_is_saved_as_it_answers(tiny_model, splits, tmp_path, tuning):
    given = settings(precision="bf16", max_steps=3)
    given["tuning"]["kind"] = tuning
    facts = train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    assert facts["precision"] == "bf16"
    assert facts["logit_difference"] < 1e-3


def test_full_fine_tuning_saves_a_whole_model(tiny_model, splits, tmp_path):
    from transformers import AutoModelForCausalLM

    given = settings()
    given["tuning"]["kind"] = "full"
    train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model") is not None


def test_a_loss_that_is_not_a_number_stops_the_run(tiny_model, splits, tmp_path):
    given = settings(learning_rate=1e30, max_grad_norm=1e30)
    with pytest.raises(UserError, match=r"step \d: the loss is (nan|inf) on rows \w"):
        train(given, tiny_model, splits, tmp_path / "c", tmp_path / "run", "none")


def test_the_trained_stop_token_becomes_the_end_everywhere(tiny_model, splits, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["eos_token"] = config["pad_token"] = "<|im_start|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    generation = {"eos_token_id": 400}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = load_tokenizer(folder)
    stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
    rows = [sequence([{**ROWS[0]}])]
    rows[0]["labels"][-1] = stop
    assert align_stop_token(tokenizer, rows) == stop
    assert tokenizer.eos_token == "<|im_end|>"


def checkpoint(folder, step, complete=True, run=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(b"weights")
    if complete:
        complete = {"run": run or folder.name, "files": {"adapter_model.safetensors": 7}}
        (path / COMPLETE).write_text(json.dumps(complete))
    return path


def test_half_written_checkpoints_are_skipped_and_kept_aside(tmp_path):
    whole = checkpoint(tmp_path, 20)
    checkpoint(tmp_path, 30, complete=False)
    (checkpoint(tmp_path, 100) / "adapter_model.safetensors").write_bytes(b"")
    assert last_complete(tmp_path) == whole
    aside = sorted(p.name for p in tmp_path.glob("broken-*"))
    assert [name.rpartition(".")[0] for name in aside] == [
        "broken-checkpoint-100",
        "broken-checkpoint-30",
    ]


def test_a_checkpoint_of_another_run_is_refused_and_kept_aside(tmp_path):
    checkpoint(tmp_path, 7, run="0123456789abcdef")
    assert last_complete(tmp_path) is None
    assert [p.name for p in tmp_path.iterdir()] == ["broken-checkpoint-7.0"]


def test_a_missing_file_breaks_a_checkpoint(tmp_path):
    path = checkpoint(tmp_path, 5)
    assert broken(path) is None
    (path / "adapter_model.safetensors").unlink()
    assert "missing or cut" in broken(path)


@pytest.mark.parametrize("tensor", [torch.zeros(0, 4), torch.zeros(2, 2), torch.tensor([np.nan])])
def test_empty_zero_or_broken_weights_are_refused(tmp_path, tensor):
    from safetensors.torch import save_file

    save_file({"lora_B.weight": tensor}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(UserError, match="empty, not finite, or all zero"):
        check_tensors(tmp_path)


def test_a_folder_with_shards_that_nobody_can_load_is_refused(tmp_path):
    (tmp_path / "pytorch_model_fsdp_0").mkdir()
    with pytest.raises(UserError, match=r"no \.safetensors weights were saved"):
        check_tensors(tmp_path)
