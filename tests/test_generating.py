"""Generated rows: what a request shows, what is read in an answer, what is new, what is sound."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from tiny import REPOSITORY

from anneal.config.generate import Generate
from anneal.errors import UserError
from anneal.generating.novelty import Earlier
from anneal.generating.parse import tasks_of
from anneal.generating.quality import fault
from anneal.generating.requests import conversation, request
from anneal.generating.seeds import read_seeds

SEEDS = str(REPOSITORY / "data/raw/seed_tasks.jsonl")
SETTINGS = Generate(seeds=SEEDS, count=9, model="m", url="http://localhost:1/v1").settings()


def task(instruction: str, output: str = "An answer.", given: str = "") -> dict:
    return {"instruction": instruction, "input": given, "output": output}


def test_seeds_are_read_in_our_form_and_in_that_of_self_instruct(tmp_path):
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    ours.write_text(json.dumps({"id": "a", **task("Do this.")}) + "\n\n")
    instance = {"input": "", "output": "An answer."}
    theirs.write_text(json.dumps({"id": "a", "instruction": "Do this.", "instances": [instance]}))
    assert read_seeds(str(ours)) == read_seeds(str(theirs)) == [{"id": "a", **task("Do this.")}]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "no JSON of a task"),
        ('"text"', "no JSON of a task"),
        ('{"instruction": "a", "instances": []}', "no JSON of a task"),
        ('{"instruction": "a"}', "no text 'output'"),
        ('{"instruction": " ", "output": "b"}', "no text 'instruction'"),
    ],
)
def test_a_seed_that_is_none_is_named_by_its_line(tmp_path, line, what):
    path = tmp_path / "seeds.jsonl"
    path.write_text(json.dumps(task("Do this.")) + "\n" + line)
    with pytest.raises(UserError, match=rf"seeds.jsonl:2: .*{what}"):
        read_seeds(str(path))


def test_a_request_follows_from_settings_number_and_tasks():
    seeds = read_seeds(SEEDS)
    kept = [{"id": f"g{n}", **task(f"New task {n}.")} for n in range(5)]
    assert request(SETTINGS, seeds, kept, 3) == request(SETTINGS, seeds, kept, 3)
    bodies = [json.dumps(request(SETTINGS, seeds, kept, n)[0]) for n in range(50)]
    assert len(set(bodies)) == 50
    for number in range(50):
        _, shown = request(SETTINGS, seeds, kept, number)
        assert len(shown) == len(set(shown)) == 8
        assert sum(name.startswith("g") for name in shown) == 2


def test_what_a_request_shows_is_read_back_as_it_was():
    seeds = read_seeds(SEEDS)
    turns = [turn["content"] for turn in conversation(seeds, 8) if turn["role"] == "assistant"]
    found = tasks_of("\n\n".join(turns), "stop")
    assert [found for found, _ in found] == [
        {name: seed[name] for name in ("instruction", "input", "output")} for seed in seeds
    ]
    assert [problem for _, problem in found] == [None] * len(seeds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Task 9**\n**Instruction:** Do.\n**Input:** N/A\n**Output:** Done.", [("Do.", None)]),
        ("Sure!\n\n### Task #9:\nInstruction: Do.\nInput: x\nOutput: y", [("Do.", None)]),
        ("Instruction: Do.\nInput: (none)\nOutput: y\nTask 10\nInstruction: Go.\nOutput: z",
         [("Do.", None), ("Go.", None)]),
        ("Task 9\nInstruction: Do.\nInput: x", [("Do.", "no output")]),
        ("Task 9\nInput: x\nOutput: y", [("", "no instruction")]),
        ("Task 9\nInstruction: Do.\nOutput: y\nInstruction: Go.", [("Do.", "a label twice")]),
        ("Task 9\nSing a song.\n\nTask 10", [("", "no instruction"), ("", "no instruction")]),
        ("Here are some ideas for tasks.", []),
        ("", []),
    ],
)  # fmt: skip
def test_tasks_are_read_from_answers_as_models_write_them(text, expected):
    found = tasks_of(text, "stop")
    assert [(task["instruction"], problem) for task, problem in found] == expected
    assert all(task["input"] in ("", "x") for task, _ in found)


PIECES = ["Task 9", "Instruction:", "Input:", "**Output**:", "\n", "- ", "word", "(none)", " ", ":"]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4))).map("".join))
def test_any_answer_can_be_read(text):
    for task, problem in tasks_of(text, "stop"):
        assert set(task) == {"instruction", "input", "output"}
        assert problem or (task["instruction"] and task["output"])
        assert all(value == value.strip() and value in text for value in task.values())


def test_the_last_task_of_an_answer_that_was_cut_off_is_not_kept():
    text = "Task 9\nInstruction: Do.\nOutput: y\nTask 10\nInstruction: Go.\nOutput: z and"
    assert [problem for _, problem in tasks_of(text, "length")] == [None, "cut off"]


def test_novelty_is_rouge_l():
    scorer = RougeScorer(["rougeL"])
    chance = random.Random(4)
    vocabulary = ["write", "a", "short", "poem", "about", "the", "sea", "list", "three", "rivers"]
    texts = [" ".join(chance.choices(vocabulary, k=chance.randint(1, 90))) for _ in range(60)]
    for one, other in zip(texts[::2], texts[1::2], strict=True):
        earlier = Earlier()
        earlier.add("other", other)
        expected = scorer.score(other, one)["rougeL"].fmeasure
        assert earlier.nearest(one)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Write a poem about the sea.", "write a poem about the SEA!", True),
        ("Write a poem about the sea.", "List three rivers of Asia.", False),
        ("Напиши стихотворение о море.", "Напиши стихотворение о море!", True),
        ("写一首关于大海的诗", "写一首关于大海的长诗", True),
        ("写一首关于大海的诗", "列出三条河流", False),
    ],
)
def test_novelty_knows_the_words_of_many_scripts(one, other, alike):
    earlier = Earlier()
    earlier.add("a seed", one)
    likeness, name = earlier.nearest(other)
    assert (likeness >= 0.7) == alike
    assert name == "a seed"


def test_the_first_task_of_all_is_new():
    assert Earlier().nearest("Write a poem.") == (0.0, None)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (task("Sing."), "instruction too short"),
        (task("Say it again. " * 51), "instruction too long"),
        (task("Describe what you see in the image."), "instruction needs: image"),
        (task("Write a letter to a friend.", "Dear [insert name here], hello."), "a blank to fill"),
        (task("Tell me how you feel.", "As an AI language model, I do not."), "is a refusal"),
        (task("Say hello to the guests.", "Say hello to the guests!"), "output repeats"),
        (task("Say hello to the guests.", "Hello!", "say hello to the guests"), "input repeats"),
        (task("Say hello to the guests.", "Hello!", "hello"), "output repeats the input"),
    ],
)
def test_what_is_no_good_is_told_with_its_reason(bad, why):
    assert why in fault(bad, SETTINGS)


def test_no_seed_breaks_a_rule_or_is_like_another():
    earlier = Earlier()
    for seed in read_seeds(SEEDS):
        texts = {name: seed[name] for name in ("instruction", "input", "output")}
        assert fault(texts, SETTINGS) is None
        assert earlier.nearest(seed["instruction"])[0] < 0.7
        earlier.add(seed["id"], seed["instruction"])


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://joe:pass@host/v1"},
        {"url": "https://host/v1?api_key=abc"},
        {"url": None, "key_env": "KEY"},
        {"min_words": 9, "max_words": 3},
    ],
)
def test_settings_that_make_no_sense_are_refused(change):
    with pytest.raises(ValueError):
        Generate(**({"seeds": SEEDS, "count": 1, "model": "m", "url": "http://h/v1"} | change))


def test_only_what_decides_the_tasks_is_a_setting():
    assert "url" in SETTINGS
    assert not {"key_env", "concurrency", "timeout", "max_requests", "prompt_price"} & set(SETTINGS)
    assert Path(SETTINGS["seeds"]).name == "seed_tasks.jsonl"
