"""Which tunings, methods and models made of runs go together; the rest is refused at once."""

import pytest
from test_config import BASE, load, refused

LORA = "{dataset: d, model: m}"
COMBINE = "  both: {{combine: {{runs: {{{runs}}}}}}}\n"


def with_models(models: str) -> str:
    return BASE.replace("runs:\n", models + "runs:\n")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("tuning: {kind: prompt}", "set datasets.d.tokenize.packing: false"),
        ("tuning: {kind: prefix}", "set datasets.d.tokenize.packing: false"),
        ("tuning: {kind: ia3, train_embeddings: true}", "train_embeddings goes with lora"),
        ("tuning: {kind: xlora}", "kind 'xlora' and 'adapters' go together"),
        ("tuning: {kind: xlora, adapters: [gone]}", "no 'gone' in runs"),
        ("tuning: {kind: xlora, adapters: [r]}", "all be tuned by lora, or all by qlora"),
        ("method: pretrain", "'pretrain' trains all weights"),
        (
            "tuning: {kind: prefix}\n    training: {gradient_checkpointing: true}",
            "cannot recompute activations",
        ),
    ],
)
def test_a_tuning_that_does_not_fit_is_refused(tmp_path, settings, line):
    assert line in refused(tmp_path, f"    {settings}\n")


def test_virtual_tokens_go_with_unpacked_rows_and_text_methods_only(tmp_path):
    unpacked = BASE.replace("    sources:", "    tokenize: {packing: false}\n    sources:")
    tuning = "    tuning: {kind: prompt}\n"
    assert load(tmp_path, tuning, unpacked).runs["r"].tuning.virtual_tokens == 20
    pairs = unpacked.replace("    sources:", "    kind: preference\n    sources:")
    line = refused(tmp_path, tuning + "    method: dpo\n", pairs)
    assert "goes with methods sft and continue only" in line


def test_added_tokens_need_a_tuning_that_trains_them(tmp_path):
    base = BASE.replace("{path: models/m}", "{path: models/m, add_tokens: [<t>]}")
    line = refused(tmp_path, "    tuning: {kind: ia3}\n", base)
    assert "would leave the tokens of models.m.add_tokens untrained" in line


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ("{dataset: d, model: m, tuning: {kind: dora}}", "all be tuned by lora, or all by qlora"),
        ("{dataset: d, model: n}", "run 's' does not start from model 'm'"),
        ("{dataset: d, model: m, tuning: {train_embeddings: true}}", "trains embeddings too"),
    ],
)
def test_only_plain_lora_adapters_of_one_base_are_combined(tmp_path, other, line):
    models = "  n: {path: models/n}\n" + COMBINE.format(runs="r: 1, s: 1")
    assert line in refused(tmp_path, f"  s: {other}\n", with_models(models))


def test_what_cannot_be_merged_is_no_model(tmp_path):
    base = with_models("  made: {run: r}\n")
    line = refused(tmp_path, "    tuning: {kind: adapter}\n", base)
    assert "the result of tuning 'adapter' cannot be merged" in line


def test_a_tokenizer_is_trained_on_raw_text_only(tmp_path):
    base = with_models("  new: {scratch: {dataset: d}}\n")
    assert "must be of kind 'text'" in refused(tmp_path, "", base)


def test_values_of_a_new_models_shape_have_the_type_they_look_like(tmp_path):
    text = BASE.replace("    sources:", "    kind: text\n    sources:")
    shape = "{hidden_size: 64, rms_norm_eps: 1e-5, attention_bias: true, hidden_act: silu}"
    new = f"  new: {{scratch: {{dataset: d, config: {shape}}}}}\n"
    config = load(tmp_path, "", text.replace("runs:\n", new + "runs:\n"))
    found = config.models["new"].scratch.config
    assert list(found.values()) == [64, 1e-5, True, "silu"]
    assert [type(value) for value in found.values()] == [int, float, bool, str]


def test_models_made_of_runs_are_compared_unless_a_run_starts_from_them(tmp_path):
    models = COMBINE.format(runs="r: 1, s: 1") + "  tuned: {run: s}\n  start: {run: r}\n"
    runs = f"  s: {LORA}\n  t: {{dataset: d, model: start}}\nevaluate: {{tasks: {{q: {{}}}}}}\n"
    found = load(tmp_path, runs, with_models(models)).compared()
    assert {name: run.model for name, run in found.items()} == {
        **{"r": "m", "s": "m", "t": "start"},
        **{"both": "m", "tuned": "m"},
    }
