"""Field cases of tokens: the seam, the end, rows that are too long, and what a cache depends on.

Pad that equals the end: FC-25. Tokens across the seam: FC-26. No learned token left: FC-28. Packed
rows: FC-29. The key of a token cache: FC-31.
"""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_field_cases_format import (
    BYTES,
    CHAT,
    CONTROL,
    encoded,
    runs,
    sentencepiece,
    without_added_bytes,
)
from tiny import CHATML, make_tokenizer
from tokenizers import AddedToken, decoders, models, trainers
from tokenizers import Tokenizer as Backend

from anneal.arrow_dataset import read_arrow_dataset
from anneal.formatting.styles import Formatter
from anneal.records import IGNORED, TEXT
from anneal.splitting.ledger import LEDGER
from anneal.splitting.write import write_splits
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.tokenize import tokenize_shard

# Prompt and answer; joined, each is one word of a tokenizer that was trained on nothing else.
SEAMS = [
    ("Pick a colour. ", "Red"),
    ("### Result: ", "17 pears"),
    ("Complete the word: in", "visible"),
    ("Go on:\n", "\nIt rained."),
    ("f(x) = ", "x²"),
    ("Antwort:", "ja"),
    ("回答：", "東京"),
    ("Smile: ", "🙂🙂"),
    ('{"answer": "', 'yes"}'),
    ("tab\t", "\tbed"),
]


def saved(backend: Backend, folder, template=CHATML) -> Tokenizer:
    make_tokenizer(folder, template, bos_token="<s>", eos_token="</s>")
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer(folder)


@pytest.fixture(scope="module")
def merging(tmp_path_factory):
    """A BPE without pre-splitting, which knows each prompt and its answer as one token."""
    backend = Backend(models.BPE())
    backend.decoder = decoders.Fuse()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=list(CONTROL), show_progress=False)
    backend.train_from_iterator([prompt + answer for prompt, answer in SEAMS] * 3, trainer)
    return saved(backend, tmp_path_factory.mktemp("merging"))


@pytest.mark.parametrize(("prompt", "answer"), SEAMS, ids=range(len(SEAMS)))
def test_a_token_across_the_seam_is_cut_there(merging, prompt, answer):
    assert len(merging.backend.encode(prompt + answer).ids) == 1
    row = {"instruction": prompt, "input": "", "output": answer}
    made = encoded(merging, row, {**CHAT, "style": "completion"})
    decode = merging.backend.decode
    assert [decode(run, False) for run in runs(made)] == [f"{answer}</s>"]
    assert decode(made["input_ids"].tolist(), False) == f"{prompt}{answer}</s>"
    before = [i for i, label in zip(made["input_ids"], made["labels"], strict=True) if label < 0]
    assert decode(before, False) == prompt


@pytest.fixture(scope="module", params=["first", "always", "normalizer"])
def prefixing(tmp_path_factory, request):
    """A SentencePiece-like BPE that puts a blank before every text it is given."""
    backend, trainer = sentencepiece(request.param)
    trainer.special_tokens = [AddedToken(token, special=True) for token in (*CONTROL, *BYTES)]
    backend.train_from_iterator([f"{prompt} {answer}" for prompt, answer in SEAMS] * 3, trainer)
    return saved(without_added_bytes(backend), tmp_path_factory.mktemp("prefixing"))


@pytest.mark.parametrize(("prompt", "answer"), SEAMS, ids=range(len(SEAMS)))
def test_a_tokenizer_that_adds_a_blank_adds_none_at_the_seam(prefixing, prompt, answer):
    row = {"instruction": prompt, "input": "", "output": answer}
    made = encoded(prefixing, row, {**CHAT, "style": "completion"})
    decode = prefixing.backend.decode
    shown = decode(made["input_ids"].tolist(), False)
    assert shown.removeprefix("<s>").lstrip(" ") == f"{prompt}{answer}</s>"
    assert [decode(run, False) for run in runs(made)] == [f"{answer}</s>"]


def row(line: int, prompt: str, answer: str) -> dict:
    place = {"id": f"i{line}", "source": "s", "file": "f.jsonl", "line": line}
    return {**place, "instruction": prompt, "input": "", "output": answer}


def tokenized(folder, rows: list[dict], policy: str, max_length: int, style="chat"):
    """Token folder and counts of a shard of rows, made by the step itself."""
    model = make_tokenizer(folder / "model")
    formatter = Formatter({**CHAT, "style": style}, Tokenizer(model))
    texts = []
    for one in rows:
        text, spans, _ = formatter.format(one)
        spans = [{"start": start, "end": end} for start, end in spans]
        texts.append({**one, "text": text, "spans": spans, "literals": [], "problem": None})
    pq.write_table(pa.Table.from_pylist(texts, TEXT), folder / "texts.parquet")
    settings = {"kind": "instruction", "max_length": max_length, "truncation": policy}
    counts = tokenize_shard(settings, folder / "texts.parquet", model, folder / "ids")
    return folder / "ids", counts


ROWS = [
    row(1, "a long question " * 30, "Short."),
    row(2, "Short?", "a long answer " * 30),
    row(3, "Short?", "Short."),
    row(4, "a long question " * 30, "a long answer " * 30),
]
END = "<|im_end|>"


@pytest.mark.parametrize(
    ("policy", "problems", "ends"),
    [
        ("drop", {"too_long": 3}, {3: True}),
        ("right", {"response_cut_away": 2}, {2: False, 3: True}),
        ("left", {}, {1: True, 2: True, 3: True, 4: True}),
    ],
)
def test_a_row_that_is_too_long_learns_something_or_is_counted(tmp_path, policy, problems, ends):
    """Where the answer's end is cut off, no end is learned in its place."""
    folder, counts = tokenized(tmp_path, ROWS, policy, 64)
    assert counts["problems"] == problems
    made = {one["line"]: one for one in read_arrow_dataset(folder).to_pylist()}
    tokenizer = Tokenizer(tmp_path / "model")
    for line, one in made.items():
        learned = [label for label in one["labels"] or () if label != IGNORED]
        assert (line in ends) == bool(learned) == (one["problem"] is None)
        assert one["supervised"] == len(learned)
        if learned:
            assert (learned[-1] == tokenizer.id(END)) == ends[line]
            assert one["length"] <= 64


@pytest.mark.parametrize("packing", [True, False])
def test_no_label_predicts_the_first_token_of_the_next_row(tmp_path, packing):
    """Positions restart at each row, no row is cut, and a bare text learns all but its first."""
    rows = [row(n, f"Say {n}.", f"{n} is {n * n}.") for n in range(1, 30)]
    folder, _ = tokenized(tmp_path, rows, "drop", 128, style="completion")
    ledger = [{**one, "status": "kept", "split": "train"} for one in rows]
    pq.write_table(pa.Table.from_pylist(ledger, LEDGER), tmp_path / "ledger.parquet")
    settings = {"kind": "instruction", "packing": packing, "max_length": 128, "weights": {"s": 1.0}}
    write_splits([folder], tmp_path / "ledger.parquet", settings, tmp_path / "splits")
    sequences = read_arrow_dataset(tmp_path / "splits" / "train").to_pylist()
    alone = {one["id"]: one["input_ids"] for one in read_arrow_dataset(folder).to_pylist()}
    assert sorted(i for sequence in sequences for i in sequence["ids"]) == sorted(alone)
    assert (max(len(sequence["ids"]) for sequence in sequences) > 1) == packing
    for sequence in sequences:
        starts = [at for at, n in enumerate(sequence["position_ids"]) if n == 0]
        assert [sequence["labels"][at] for at in starts] == [IGNORED] * len(starts)
        parts = np.split(np.array(sequence["input_ids"]), starts[1:])
        assert [part.tolist() for part in parts] == [alone[i] for i in sequence["ids"]]
        assert all(
            (np.diff(sequence["position_ids"]) == 1) | (np.diff(sequence["position_ids"]) < 0)
        )


CONFIG = """\
project: p
datasets:
  d: {{sources: {{s: {{path: raw.jsonl}}}}, tokenize: {{max_length: {length}}}}}
models: {{m: {{path: m, add_tokens: {added}}}}}
runs: {{r: {{dataset: d, model: m, method: sft}}}}
"""
TOKEN_STEPS = (
    ("read_shard", {"dataset": "d", "shard": "s-00000"}),
    ("fetch_model", {"model": "m"}),
    ("format_shard", {"dataset": "d", "model": "m", "shard": "s-00000"}),
    ("tokenize_shard", {"dataset": "d", "model": "m", "shard": "s-00000"}),
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project, and what the steps up to its tokens depend on."""
    from anneal.config.schema import load_config
    from anneal.workflow import Steps

    def made(where="here", length=64, added="[]", raw="b", template=CHATML):
        folder = tmp_path / where
        make_tokenizer(folder / "m", template)
        (folder / "raw.jsonl").write_text(f'{{"instruction": "a", "output": "{raw}"}}\n')
        (folder / "config.yaml").write_text(CONFIG.format(length=length, added=added))
        monkeypatch.chdir(folder)
        steps = Steps(load_config("config.yaml"))
        return {name: steps.text(name, wildcards) for name, wildcards in TOKEN_STEPS}

    return made


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ({"template": CHATML + " "}, {"fetch_model"}),
        ({"added": "[<tool>]"}, {"fetch_model"}),
        ({"length": 65}, {"tokenize_shard"}),
        ({"raw": "c"}, {"read_shard"}),
        ({"where": "elsewhere"}, set()),
    ],
    ids=["template", "added token", "length", "data row", "folder"],
)
def test_tokens_are_made_again_where_their_making_changed_and_nowhere_else(project, change, steps):
    before, after = project(), project(**change)
    assert {name for name in before if before[name] != after[name]} == steps


def test_new_times_of_files_make_no_tokens_again(project):
    before = project()
    for name in ("raw.jsonl", "m/tokenizer.json", "m/chat_template.jinja", "config.yaml"):
        os.utime(name, (1, 1))
    assert project() == before
