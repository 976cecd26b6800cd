"""The command line without the DAG: Alpaca's own options on an Alpaca JSON."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file
from tiny import REPOSITORY
from transformers import AutoModelForCausalLM, AutoTokenizer

import finetune
from anneal.errors import UserError
from anneal.formatting.styles import ALPACA
from anneal.training.alpaca import alpaca_rows

ROWS = [
    {"instruction": "Name a red fruit.", "input": "", "output": "The apple is red."},
    {"instruction": "Add.", "input": "2 and 3", "output": "2 and 3 make 5."},
    {"instruction": "A row without an answer.", "input": ""},
    {"instruction": "Say hello.", "input": "", "output": "Hello, how are you?"},
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "alpaca data.json"
    path.write_text(json.dumps(ROWS))
    return path


def options(model, data, output, **more) -> list[str]:
    given = {"model_name_or_path": model, "data_path": data, "output_dir": output}
    given |= {"use_cpu": True, "num_train_epochs": 2, "per_device_train_batch_size": 1}
    given |= {"gradient_accumulation_steps": 1, "learning_rate": 1e-3} | more
    return [str(part) for name, value in given.items() for part in (f"--{name}", value)]


def finetuned(*given, **more):
    """Run the command in this process; the folder of the result."""
    finetune.main(SimpleNamespace(log=None, options=options(*given, **more)))
    return given[2]


def test_only_the_response_and_its_end_are_learned(tiny_model, data):
    rows, rejects = alpaca_rows(data, tiny_model, 512)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    learned = [label for label in rows[0]["labels"] if label >= 0]
    assert tokenizer.decode(learned) == "The apple is red.<|im_end|>"
    begun = tokenizer.decode(rows[0]["input_ids"][: -len(learned)])
    assert begun.removeprefix("<|im_start|>") == ALPACA.format(instruction="Name a red fruit.")
    assert len(rows) == 3
    assert rejects == [{"line": 3, "reason": "'output' is missing or null"}]


def test_alpacas_own_command_runs_as_it_is_written(tiny_model, data, tmp_path):
    given = options(tiny_model, data, tmp_path / "out", per_device_eval_batch_size=4)
    given += ["--evaluation_strategy", "no", "--save_strategy", "steps", "--save_steps", "2000"]
    given += ["--save_total_limit", "1", "--weight_decay", "0.", "--warmup_ratio", "0.03"]
    given += ["--lr_scheduler_type", "cosine", "--logging_steps", "1", "--bf16", "True"]
    command = [sys.executable, "scripts/finetune.py", *given]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    start = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert not trained.lm_head.weight.equal(start.lm_head.weight)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").eos_token == "<|im_end|>"
    assert len((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()) == 1


def test_a_run_that_stopped_goes_on_and_ends_with_the_same_weights(tiny_model, data, tmp_path):
    whole = finetuned(tiny_model, data, tmp_path / "whole", save_steps=2)
    last = next((tmp_path / "whole" / "checkpoints").iterdir()) / "checkpoint-6"
    (last / "complete.json").unlink()
    (whole / "model.safetensors").rename(tmp_path / "undisturbed.safetensors")
    finetuned(tiny_model, data, whole, save_steps=2)
    assert last.with_name("broken-checkpoint-6.0").is_dir()
    again, first = (whole / "model.safetensors"), (tmp_path / "undisturbed.safetensors")
    assert again.read_bytes() == first.read_bytes()
    again.unlink()
    finetuned(tiny_model, data, whole, save_steps=2)
    assert load_file(again).keys() == load_file(first).keys()
    assert again.read_bytes() == first.read_bytes()


def test_checkpoints_of_other_data_are_not_gone_on_from(tiny_model, data, tmp_path):
    folder = finetuned(tiny_model, data, tmp_path / "out")
    data.write_text(json.dumps(ROWS[:2]))
    finetuned(tiny_model, data, folder)
    assert len(list((folder / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data_path": "nowhere.json"}, "nowhere.json: no such file"),
        ({"eval_strategy": "steps"}, "no rows are set aside for evaluation"),
        ({"model_max_length": 8}, "3 x response_cut_away, 1 x"),
    ],
)
def test_a_mistake_is_one_line(tiny_model, data, tmp_path, more, message):
    with pytest.raises(UserError, match=message):
        finetuned(tiny_model, data, tmp_path / "out", **more)


def test_a_model_that_is_nowhere_is_one_line(data, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="no folder 'nobody/nothing'"):
        finetuned("nobody/nothing", data, tmp_path / "out")
