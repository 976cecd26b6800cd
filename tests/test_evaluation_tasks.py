"""Benchmarks on a tiny model, by lm-eval itself: groups, filters, examples, BOS, its folders."""

import json
import subprocess
import sys
from collections import defaultdict

import pytest
from tiny import CHATML, REPOSITORY, make_model, make_tokenizer
from tokenizers import Tokenizer as Backend
from tokenizers import processors

from anneal.config.evaluate import Evaluate
from anneal.config.prepare import Format
from anneal.errors import UserError
from anneal.evaluation.benchmark import benchmark
from anneal.evaluation.compare import compare
from anneal.evaluation.harness import load_harness
from anneal.evaluation.heldout import bare_prompts, encoded, measure
from anneal.evaluation.results import (
    DATE,
    gather,
    gather_lm_eval,
    read_lm_eval,
    write_lm_eval,
)
from anneal.provenance.files import write_json
from anneal.tokenizer import Tokenizer

BOS_TEMPLATE = "{{ bos_token }}" + CHATML
ROWS = [{"q": f"Is {n} even or odd?", "a": ("even", "odd")[n % 2]} for n in range(8)]
SHARED = """\
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
doc_to_text: "{{{{q}}}}"
metadata: {{version: 2.0}}
"""
CHOICE = """\
task: {name}
output_type: multiple_choice
doc_to_choice: [even, odd]
doc_to_target: a
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
WRITE = """\
task: write
output_type: generate_until
doc_to_target: a
generation_kwargs: {until: ["\\n"], do_sample: false, max_gen_toks: 4}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - name: first-word
    filter: [{function: regex, regex_pattern: "(\\\\w+)"}, {function: take_first}]
"""
GROUP = """\
group: both
task: [one, two]
aggregate_metric_list: [{metric: acc, aggregation: mean, weight_by_size: true}]
metadata: {version: 1.0}
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A folder of local tasks: two of choices, their group, one that writes, one that is fixed."""
    folder = tmp_path_factory.mktemp("tasks")
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name in ("one", "two", "fixed"):
        text = SHARED.format(rows=rows) + CHOICE.format(name=name)
        text += "num_fewshot: 0\n" if name == "fixed" else ""
        (folder / f"{name}.yaml").write_text(text)
    (folder / "write.yaml").write_text(SHARED.format(rows=rows) + WRITE)
    (folder / "both.yaml").write_text(GROUP)
    return folder


@pytest.fixture(scope="module")
def ask(tasks, tiny_model):
    def run(model=tiny_model, batch_size=4, **wanted):
        section = Evaluate(include=str(tasks), tasks=wanted, batch_size=batch_size)
        return benchmark(section.model_dump(), model, defaultdict(lambda: tasks / "rows.jsonl"))

    return run


def test_a_group_has_a_score_of_all_its_questions_and_names_their_tasks(ask):
    results, samples, _ = ask(both={})
    assert results["both"]["questions"] == len(samples) == 16
    assert {sample["part"] for sample in samples} == {"one", "two"}
    mean = sum(sample["score"] for sample in samples) / 16
    assert results["both"]["value"] == pytest.approx(mean)
    settings = {"max_drop": 0.05, "tasks": {"both": {"forgetting": True}}}
    found = compare(results, results, samples, samples, settings)[0]
    assert (found["paired"], found["same_as_base"]) == (True, True)


def test_the_score_is_that_behind_the_wanted_filter_each_question_once(ask):
    first, _, _ = ask(write={"metric": "exact_match"})
    other, samples, _ = ask(write={"metric": "exact_match", "filter": "first-word"})
    assert first["write"]["asked"]["filter"] == "strict"
    assert other["write"]["asked"]["filter"] == "first-word"
    assert other["write"]["questions"] == len(samples) == 8
    assert other["write"]["chance"] is None


def test_the_number_of_examples_and_their_form_are_those_that_were_asked_with(ask):
    task = {"chat_template": True, "num_fewshot": 2}
    turns, asked, _ = ask(one=task)
    block, other, _ = ask(one={**task, "fewshot_as_multiturn": False})
    assert turns["one"]["asked"]["num_fewshot"] == 2
    assert asked[0]["prompt"].count("<|im_start|>user") == 3
    assert other[0]["prompt"].count("<|im_start|>user") == 1
    settings = {"max_drop": 0.05, "tasks": {"one": {"forgetting": False}}}
    found = compare(turns, block, asked, other, settings)[0]
    assert found["differing"] == ["fewshot_as_multiturn", "prompts"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"on": {}}, "lm-eval has no such task (is it one?)"),
        ({"one": {"metric": "f1"}}, "no metric 'f1'; this task has: acc"),
        ({"write": {"metric": "exact_match", "filter": "x"}}, "this task has: strict, first-word"),
        ({"fixed": {"num_fewshot": 3}}, "fixes it to 0; take num_fewshot out of that file"),
        ({"gsm8k": {"metric": "exact_match"}}, "set evaluate.download"),
        ({"ai2_arc": {}}, "it is a tag, which has no score of its own; name its tasks: arc_ch"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(ask, wanted, said):
    with pytest.raises(UserError) as error:
        ask(**wanted)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_folder_is_one_that_lm_evals_own_tools_read(ask, tmp_path):
    from lm_eval.utils import get_file_task_name, get_sample_results_filenames, make_table

    _, _, outcomes = ask(both={}, write={"metric": "exact_match"})
    settings = Evaluate().model_dump()
    write_lm_eval(tmp_path / "lm_eval", outcomes, settings, "base")
    document = json.loads((tmp_path / "lm_eval" / f"results_{DATE}.json").read_text())
    assert "write" in make_table(document)
    assert "both" in make_table(document, "groups")
    files = get_sample_results_filenames([str(p) for p in (tmp_path / "lm_eval").iterdir()])
    named = {get_file_task_name(file.rpartition("/")[2]) for file in files}
    assert named == {"one", "two", "write"}
    assert {"one", "two", "both", "write"} <= read_lm_eval(document).keys()
    assert str(tmp_path) not in json.dumps(document["configs"])


def write_part(folder, asked, **wanted):
    results, samples, outcomes = asked
    write_lm_eval(folder / "lm_eval", outcomes, Evaluate(tasks=wanted).model_dump(), "base")
    write_json(folder / "results.json", results)
    lines = (json.dumps(sample) + "\n" for sample in samples)
    (folder / "samples.jsonl").write_text("".join(lines))


def test_jobs_that_share_the_tasks_find_the_bytes_of_one_job(ask, tmp_path):
    tasks = {"one": {}, "write": {"metric": "exact_match"}, "two": {"num_fewshot": 1}}
    write_part(tmp_path / "whole", ask(**tasks), **tasks)
    shared = [{"write": tasks["write"]}, {"one": tasks["one"], "two": tasks["two"]}]
    parts = [tmp_path / "0", tmp_path / "1"]
    for part, own in zip(parts, shared, strict=True):
        write_part(part, ask(**own), **own)
    results, lines = gather(parts, list(tasks))
    whole = tmp_path / "whole"
    assert results == json.loads((whole / "results.json").read_text())
    assert b"".join(lines) == (whole / "samples.jsonl").read_bytes()
    gather_lm_eval(tmp_path / "lm_eval", [part / "lm_eval" for part in parts])
    found, wanted = (
        {path.name: path.read_bytes() for path in (folder / "lm_eval").iterdir()}
        for folder in (tmp_path, whole)
    )
    assert found == wanted


def test_results_of_elsewhere_are_compared_by_one_command(tmp_path):
    files = [tmp_path / f"results_{n}.json" for n in "ab"]
    files[0].write_text(json.dumps(published("2.0", "strict-match", 0.412)))
    files[1].write_text(json.dumps(published("3.0", "flexible-extract", 0.501)))
    command = [sys.executable, REPOSITORY / "scripts" / "compare_results.py", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "sums: 0.4120 -> 0.5010, not comparable: filter, version\n"


def bos_model(folder, template=BOS_TEMPLATE):
    """A tokenizer that adds a BOS by itself, too."""
    make_tokenizer(folder, template, bos_token="<s>")
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    bos = ("<s>", backend.token_to_id("<s>"))
    backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[bos])
    backend.save(str(folder / "tokenizer.json"))
    make_model(folder)
    return folder


@pytest.mark.parametrize("template", [BOS_TEMPLATE, CHATML])
def test_fc_20_questions_begin_with_the_bos_of_training_and_no_other(tmp_path, template):
    model = load_harness(bos_model(tmp_path, template), {"batch_size": 2, "precision": "fp32"})
    bos = model.tokenizer.bos_token_id
    turns = [{"role": "user", "content": "Name a fruit."}]
    text = model.apply_chat_template(turns)
    model.ask_as_chat(True)
    trained = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
    assert trained.count(bos) == ("bos_token" in template)
    assert model.tok_encode(text) == trained
    assert model.tok_batch_encode([text, text])[0].tolist() == [trained] * 2
    context, answer = model._encode_pair(text, "Pear.")
    assert (context + answer)[: len(trained)] == trained  # lm-eval scores the last line break too
    assert bos not in answer
    model.ask_as_chat(False)
    assert model.tok_encode("Name a fruit.").count(bos) == 1


def test_fc_20_a_question_that_begins_with_two_bos_is_refused(tmp_path, tasks):
    model = load_harness(
        bos_model(tmp_path, "{{ bos_token }}" + BOS_TEMPLATE),
        {"batch_size": 2, "precision": "fp32"},
    )
    text = model.apply_chat_template([{"role": "user", "content": "Name a fruit."}])
    for encode in (model.tok_encode, lambda text: model.tok_batch_encode([text])):
        with pytest.raises(UserError, match="questions begin with <s> twice"):
            encode(text)


def test_fc_49_scores_with_and_without_the_template_are_not_compared(ask):
    plain, asked, _ = ask(one={})
    chat, other, _ = ask(one={"chat_template": True, "system": "Be brief."})
    settings = {"max_drop": 0.05, "tasks": {"one": {"forgetting": True}}}
    found = compare(plain, chat, asked, other, settings)[0]
    assert found["verdict"] == "not comparable"
    assert found["differing"] == ["chat_template", "prompts", "system", "template"]
    assert "--forcerun benchmark" in found["do"]
    assert "delta" not in found


def test_fc_49_a_task_at_exactly_zero_is_warned_about_with_answers(ask):
    results, samples, _ = ask(write={"metric": "exact_match"})
    assert results["write"]["value"] == 0
    settings = {"max_drop": 0.05, "tasks": {"write": {"forgetting": True}}}
    warnings = compare(results, results, samples, samples, settings)[0]["warnings"]
    assert warnings[0].startswith("base scores exactly 0: look at its answers (answers: ")
    assert "for 'even'" in warnings[0]


def published(version: str, answer_filter: str, value: float) -> dict:
    """A results file as lm-eval writes it, of a task of sums."""
    key, error = (f"exact_match{end},{answer_filter}" for end in ("", "_stderr"))
    return {
        "results": {"sums": {"alias": "sums", key: value, error: 0.0136}},
        "versions": {"sums": version},
        "n-shot": {"sums": 5},
        "n-samples": {"sums": {"original": 1319, "effective": 1319}},
        "config": {"model": "hf", "batch_size": "8", "limit": None},
        "chat_template": None,
        "fewshot_as_multiturn": False,
    }


def test_fc_50_another_version_or_filter_is_not_compared_and_what_is_missing_is_listed():
    base = read_lm_eval(published("2.0", "strict-match", 0.412))
    tuned = read_lm_eval(published("3.0", "flexible-extract", 0.501))
    tasks = {"sums": {"forgetting": False}, "gone": {"forgetting": False}}
    rows = compare(base, tuned, [], [], {"max_drop": 0.05, "tasks": tasks})
    assert [row["verdict"] for row in rows] == ["not comparable"] * 2
    assert rows[0]["differing"] == ["filter", "version"]
    assert rows[1]["differing"] == ["missing in base"]
    assert not any("delta" in row for row in rows)
    like = read_lm_eval(published("2.0", "strict-match", 0.501))
    row = compare(base, like, [], [], {"max_drop": 0.05, "tasks": {"sums": tasks["sums"]}})[0]
    assert (row["verdict"], row["paired"]) == ("better", False)


def test_prompts_of_the_user_s_own_are_asked_in_the_form_of_training(tiny_model):
    settings = {"prompts": ["Say hello."], "tokenize": {"max_length": 300, "truncation": "drop"}}
    decode = Tokenizer(tiny_model).backend.decode
    for style, end in {"alpaca": "### Response:", "chat": "<|im_start|>assistant\n"}.items():
        given = {**settings, "format": Format(style=style).model_dump()}
        (prompt,) = bare_prompts(given, tiny_model)
        text = decode(prompt["input_ids"], False)
        assert "Say hello." in text
        assert text.endswith(end)


KINDS = {
    "instruction": {"instruction": "Name a fruit.", "input": "", "output": "Pear."},
    "preference": {
        "prompt": [{"role": "user", "content": "Name a fruit."}],
        "chosen": [{"role": "assistant", "content": "Pear."}],
        "rejected": [{"role": "assistant", "content": "Zinc is one."}],
    },
    "prompts": {"prompt": [{"role": "user", "content": "Name a fruit."}]},
    "text": {"text": "Name a fruit. Pear."},
}


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_rows_of_every_kind_are_measured_and_answered(tiny_model, jsonl, kind):
    from transformers import AutoModelForCausalLM

    style = "completion" if kind == "text" else "chat"
    settings = {
        **{
            "kind": kind,
            "rows": 9,
            "samples": 1,
            "prompts": ["Say hello."],
            "batch_size": 2,
            "precision": "fp32",
        },
        "format": Format(style=style).model_dump(),
        "tokenize": {"max_length": 64, "truncation": "drop"},
    }
    filled = dict.fromkeys(("name", "tool_calls", "tool_call_id"))
    row = {
        k: [{**filled, **turn} for turn in v] if isinstance(v, list) else v
        for k, v in KINDS[kind].items()
    }
    heldout = jsonl([{"id": str(n), "category": None, **row} for n in range(3)])
    found = measure(settings, tiny_model, heldout)
    assert [bool(sample["expected"]) for sample in found["samples"]] == [kind != "prompts", False]
    assert "Say hello." in found["samples"][1]["prompt"]
    if kind == "prompts":
        assert (found["loss"], found["tokens"]) == (None, 0)
        return
    import torch

    made = encoded(settings, tiny_model, [{"id": "0", "category": None, **row}])[0]
    ids, labels = (torch.tensor([made[name]]) for name in ("input_ids", "labels"))
    loss = AutoModelForCausalLM.from_pretrained(tiny_model)(ids, labels=labels).loss.item()
    assert found["loss"] == pytest.approx(loss, abs=1e-4)
    assert found["perplexity"] == pytest.approx(2.718281828**loss, rel=1e-3)
    assert len(found["rows"]) == 3
