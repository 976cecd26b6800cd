"""Every recipe is a whole configuration, and the ready ones say what the field settled on."""

from pathlib import Path

import pytest
from tiny import REPOSITORY

from anneal.config.schema import load_config

RECIPES = sorted(REPOSITORY.glob("config/recipes/*.yaml"))
ALPACA = {"alpaca-llama-7b": (2e-5, 3), "alpaca-llama-13b": (1e-5, 5), "alpaca-opt": (2e-5, 3)}


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(REPOSITORY)


def only_run(name: str):
    """The configuration of a recipe, and its one run."""
    config = load_config(Path("config/recipes", f"{name}.yaml"))
    (run,) = config.runs.values()
    return config, run


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_each_recipe_is_whole_and_its_batch_is_an_identity(path):
    config = load_config(path)
    assert config.runs
    for run in config.runs.values():
        batch = run.batch()
        parts = (batch["micro_batch"], batch["accumulation"], batch["processes"])
        assert batch["global_batch"] == parts[0] * parts[1] * parts[2]
        assert run.settings()["training"]["global_batch_size"] == batch["global_batch"]
        assert f"config/recipes/{path.name}" in path.read_text()


@pytest.mark.parametrize("name", ALPACA)
def test_the_alpaca_recipes_are_those_of_stanford(name):
    config, run = only_run(name)
    rate, epochs = ALPACA[name]
    training = run.settings()["training"]
    assert (training["learning_rate"], training["num_train_epochs"]) == (rate, epochs)
    assert (training["weight_decay"], training["warmup_ratio"]) == (0, 0.03)
    assert (training["lr_scheduler_type"], training["precision"]) == ("cosine", "bf16")
    four = {"global_batch": 128, "micro_batch": 4, "accumulation": 8, "processes": 4}
    assert run.batch() == four
    assert (run.tuning.kind, run.strategy.kind) == ("full", "fsdp")
    assert config.datasets["alpaca"].tokenize.max_length == 512
    assert config.datasets["alpaca"].format.style == "alpaca"


@pytest.mark.parametrize("name", ALPACA)
def test_each_rung_to_less_memory_gives_the_same_run(name, tmp_path):
    text = Path("config/recipes", f"{name}.yaml").read_text()
    rungs = [line for line in text.splitlines() if "strategy: {" in line]
    found = []
    for rung in rungs:
        others = [line for line in text.splitlines() if line not in rungs]
        path = tmp_path / "rung.yaml"
        path.write_text("\n".join([*others, rung.replace("# ", "")]))
        (run,) = load_config(path).runs.values()
        found.append(
            (run.strategy.kind, run.strategy.offload, run.strategy.zero_stage, run.settings())
        )
    assert [rung[:2] for rung in found] == [("fsdp", False), ("fsdp", True), ("deepspeed", True)]
    assert found[0][3] == found[1][3] == found[2][3]


def test_the_blocks_of_fsdp_are_found_from_the_model():
    from transformers import LlamaForCausalLM, OPTForCausalLM

    assert {"LlamaDecoderLayer"} == set(LlamaForCausalLM._no_split_modules)
    assert {"OPTDecoderLayer"} == set(OPTForCausalLM._no_split_modules)


def test_lora_has_the_defaults_of_the_field():
    _, run = only_run("lora")
    found = run.settings()
    tuning, training = found["tuning"], found["training"]
    assert (tuning["kind"], tuning["r"], tuning["alpha"], tuning["dropout"]) == (
        "lora",
        16,
        32,
        0.05,
    )
    assert tuning["target_modules"] == "all-linear"
    assert training["learning_rate"] == 2e-4
    assert (training["lr_scheduler_type"], training["warmup_ratio"]) == ("cosine", 0.03)
    assert (training["weight_decay"], training["max_grad_norm"]) == (0.01, 1.0)
    assert (training["num_train_epochs"], training["save_total_limit"]) == (3, 3)
    assert (training["logging_steps"], training["eval_steps"], training["save_steps"]) == (
        10,
        200,
        500,
    )
    assert run.batch()["micro_batch"] * run.batch()["accumulation"] == 32
