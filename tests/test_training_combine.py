"""Models made of other models: adapters combined, new ones from scratch, and their cards."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from peft import LoraConfig, get_peft_model
from test_models import given
from transformers import AutoModelForCausalLM, AutoTokenizer

from anneal.errors import UserError
from anneal.training import scratch
from anneal.training.combine import combined, make_model
from anneal.training.fetch import fetch
from anneal.training.merge import merged
from anneal.training.models import load_model
from anneal.training.scratch import check_keys, random_model, trained_tokenizer, training_texts

IDS = torch.tensor([[5, 9, 40, 41, 42, 7, 8, 350, 351, 12]])
TEXTS = [f"The river number {n} is {'even' if n % 2 else 'odd'}." for n in range(300)]


@pytest.fixture(scope="module")
def adapters(tiny_model, tmp_path_factory):
    """Two random adapters of different rank on one base, saved as runs save theirs."""
    root, made = tmp_path_factory.mktemp("adapters"), {}
    for seed, (name, r) in enumerate({"first": 2, "second": 4}.items()):
        torch.manual_seed(seed)
        config = LoraConfig(
            r=r, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
        )
        made[name] = root / name / "model"
        get_peft_model(load_model(tiny_model), config).save_pretrained(made[name])
        AutoTokenizer.from_pretrained(tiny_model).save_pretrained(made[name])
    return made


def wanted(kind: str, seed: int = 17, **runs: float) -> dict:
    return {"kind": kind, "density": 0.5, "seed": seed, "runs": runs}


@torch.no_grad()
def logits(model) -> torch.Tensor:
    return model.eval()(input_ids=IDS, use_cache=False).logits


def changes(model, tiny_model) -> dict:
    base = load_model(tiny_model).state_dict()
    return {name: weight - base[name] for name, weight in model.state_dict().items()}


def test_one_adapter_of_weight_one_is_that_adapter_merged(adapters):
    model = combined({"first": adapters["first"]}, wanted("linear", first=1.0))
    assert torch.allclose(logits(model), logits(merged(adapters["first"])), atol=1e-6)


def test_a_linear_combination_is_the_weighted_sum_of_what_the_adapters_change(adapters, tiny_model):
    first, second = (changes(merged(adapters[name]), tiny_model) for name in adapters)
    both = changes(combined(adapters, wanted("linear", first=0.7, second=-0.2)), tiny_model)
    assert any(change.any() for change in both.values())
    for name, change in both.items():
        assert torch.allclose(change, 0.7 * first[name] - 0.2 * second[name], atol=1e-5)


def test_ties_keeps_a_change_only_where_its_sign_wins(adapters, tiny_model):
    first, second = (changes(merged(adapters[name]), tiny_model) for name in adapters)
    both = changes(combined(adapters, wanted("ties", first=1.0, second=1.0)), tiny_model)
    name = "model.layers.0.mlp.down_proj.weight"
    agree = (first[name] * second[name]) > 0
    assert (both[name][agree] * first[name][agree] >= -1e-7).all()
    share = (both[name].abs() > 1e-7).float().mean()
    assert 0.5 < share < 0.8  # each keeps its larger half


@pytest.mark.parametrize("kind", ["ties", "dare_linear", "dare_ties"])
def test_equal_seeds_give_equal_weights_and_dare_depends_on_the_seed(adapters, kind):
    def made(seed):
        return logits(combined(adapters, wanted(kind, seed, first=1.0, second=1.0)))

    assert torch.equal(made(1), made(1))
    assert torch.equal(made(1), made(2)) == (kind == "ties")


def manifests(adapters) -> list:
    """What `train_run` and `write_splits` leave beside the adapters."""
    facts = {"steps": 3, "trained_weights": 10, "weights": 100}
    settings = {"method": "sft", "tuning": {"kind": "lora"}, "training": {"learning_rate": 2e-4}}
    run = {"settings": settings, "facts": facts, "versions": {"peft": "9.9"}}
    run["inputs"] = {"splits": "abc123"}
    splits = {"facts": {name: {"rows": n} for name, n in (("train", 8), ("eval", 2), ("test", 1))}}
    paths = [folder.parent / "manifest.json" for folder in adapters.values()]
    for path in paths:
        path.write_text(json.dumps(run))
    other = paths[0].parents[1] / "splits.json"
    other.write_text(json.dumps(splits))
    return [*paths, *[other] * len(paths)]


def test_a_combined_model_is_a_folder_ready_to_be_pushed(adapters, tmp_path):
    made_of = {name: {"dataset": f"{name}-rows", "base": "org/base"} for name in adapters}
    model = {"combine": wanted("linear", first=0.5, second=0.5), "made_of": made_of}
    make_model(model, manifests(adapters), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= names
    assert {"chat_template.jinja", "generation_config.json"} <= names
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(combined(adapters, model["combine"])))
    card = (tmp_path / "README.md").read_text()
    for said in ("org/base", "first-rows", "8 train, 2 eval, 1 test", "abc123", "peft 9.9"):
        assert said in card
    assert "learning_rate: 0.0002" in card
    assert "`linear` with weights first 0.5, second 0.5" in card


@pytest.fixture
def rows(tmp_path):
    """Ledger and cleaned shards in which every third row is no training row."""
    places = [{"source": "s", "file": "f", "line": n + 1} for n in range(len(TEXTS))]
    sides = [None if n % 3 == 2 else "train" for n in range(len(TEXTS))]
    ledger = [{**place, "split": side} for place, side in zip(places, sides, strict=True)]
    pq.write_table(pa.Table.from_pylist(ledger[::-1]), tmp_path / "ledger.parquet")
    made = [{**place, "text": text} for place, text in zip(places, TEXTS, strict=True)]
    for number, part in enumerate((made[:100], made[100:])):
        pq.write_table(pa.Table.from_pylist(part), tmp_path / f"{number}.parquet")
    return [tmp_path / "ledger.parquet", tmp_path / "0.parquet", tmp_path / "1.parquet"]


def test_the_tokenizer_learns_from_training_rows_alone_in_their_order(rows):
    found = list(training_texts(rows[0], rows[1:]))
    assert found == [text for n, text in enumerate(TEXTS) if n % 3 != 2]


def new(**config) -> dict:
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    shape |= {"num_attention_heads": 2, "num_key_value_heads": 1}
    made = {"dataset": "d", "architecture": "llama", "vocab_size": 320, "seed": 3}
    return {**made, "config": shape | config}


def test_a_new_model_has_a_tokenizer_of_its_own_and_equal_bytes_each_time(rows, tmp_path):
    model, maker = given(scratch=new()), "anneal.training.scratch"
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
        fetch(model, tmp_path / name, [], maker, rows)
    files = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= set(files)
    for name in files:
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "once")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "once")
    assert len(tokenizer) == loaded.config.vocab_size == 320
    assert tokenizer.decode(tokenizer("The river é 🦆").input_ids) == "The river é 🦆"
    assert tokenizer.eos_token_id == loaded.config.eos_token_id == 0
    assert len(tokenizer(" river").input_ids) == 1


@pytest.mark.parametrize(
    ("architecture", "config", "line"),
    [
        ("lama", {}, "scratch.architecture: unknown: 'lama'; did you mean 'llama'?"),
        ("llama", {"hiden_size": 8}, "unknown: 'hiden_size'; did you mean 'hidden_size'?"),
    ],
)
def test_an_unknown_architecture_or_key_is_refused_with_the_nearest_name(
    architecture, config, line
):
    with pytest.raises(UserError) as error:
        check_keys(architecture, config)
    assert line in str(error.value)


@pytest.mark.parametrize("config", [{"hidden_size": "wide"}, {"num_attention_heads": 0}])
def test_a_shape_that_no_model_has_is_refused(config):
    tokenizer = trained_tokenizer(iter(TEXTS), 300, [scratch.END])
    with pytest.raises(UserError, match="no such model can be made"):
        random_model(new(**config), tokenizer)
