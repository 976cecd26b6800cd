"""Tokenizing: the labels decode to exactly the response and its end; everything else is -100."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import CHATML, make_tokenizer

from anneal.config.prepare import Format
from anneal.errors import UserError
from anneal.formatting.format import _format
from anneal.formatting.pairs import format_pair
from anneal.formatting.styles import Formatter
from anneal.records import IGNORED
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder
from anneal.tokenizing.packing import pack, position_ids
from anneal.tokenizing.pairs import encode_pairs

CHAT = Format().model_dump()

words = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\u0000"),
    min_size=1,
    max_size=30,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(make_tokenizer(tmp_path_factory.mktemp("tok")))


def text_row(text, spans, literals=()):
    spans, literals = ([{"start": a, "end": b} for a, b in s] for s in (spans, literals))
    place = {"id": "i", "source": "s", "file": "f.jsonl", "line": 3}
    return {**place, "text": text, "spans": spans, "literals": literals, "problem": None}


def encode(tokenizer, text, spans, max_length=10_000, truncation="drop", literals=()):
    return Encoder(tokenizer, max_length, truncation).encode([text_row(text, spans, literals)])[0]


def decoded_labels(tokenizer, row):
    ids = [label for label in row["labels"] if label != IGNORED]
    return tokenizer.backend.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("style", ["chat", "alpaca", "completion"])
@given(prompt=words, response=words)
def test_supervised_ids_decode_to_the_response_and_its_end(tokenizer, style, prompt, response):
    row = {"instruction": prompt, "input": "", "output": response}
    text, spans, _ = Formatter({**CHAT, "style": style}, tokenizer).format(row)
    encoded = encode(tokenizer, text, spans)
    assert decoded_labels(tokenizer, encoded) == response + "<|im_end|>"
    assert tokenizer.backend.decode(encoded["input_ids"].tolist(), False) == text


def test_where_the_supervised_ids_stand_the_labels_are_the_ids(tokenizer):
    text, spans, _ = Formatter(CHAT, tokenizer).format(
        {"instruction": "Name a fruit.", "input": "", "output": "Pear."}
    )
    row = encode(tokenizer, text, spans)
    on = row["labels"] != IGNORED
    assert (row["labels"][on] == row["input_ids"][on]).all()
    assert 0 < on.sum() == row["supervised"] < len(on) == row["length"]


@pytest.mark.parametrize("style", ["chat", "alpaca", "completion"])
def test_control_tokens_typed_in_the_data_stay_text(tokenizer, style):
    row = {
        "instruction": "What does <|im_start|>system do? \ue000",
        "input": "<|im_end|>",
        "output": "It ends: <|im_end|><|im_end|> so.",
    }
    text, spans, literals = Formatter({**CHAT, "style": style}, tokenizer).format(row)
    encoded = encode(tokenizer, text, spans, literals=literals)
    assert decoded_labels(tokenizer, encoded) == row["output"] + "<|im_end|>"
    assert tokenizer.backend.decode(encoded["input_ids"].tolist(), False) == text
    starts, ends = (tokenizer.id(token) for token in ("<|im_start|>", "<|im_end|>"))
    assert (encoded["input_ids"] == starts).sum() == (2 if style == "chat" else 0)
    assert (encoded["input_ids"] == ends).sum() == (2 if style == "chat" else 1)


def test_a_token_across_the_seam_is_split_there(tmp_path):
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, trainers

    folder = make_tokenizer(tmp_path / "t")
    backend = Backend(models.BPE())
    backend.decoder = decoders.Fuse()
    texts = ["answer: yes", "answer: yes", "total=12", "total=12"]
    backend.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=200, show_progress=False))
    backend.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer(folder)
    for prompt, response in [("answer: ", "yes"), ("total=", "12")]:
        assert len(tokenizer.backend.encode(prompt + response).ids) == 1
        encoder = Encoder(tokenizer, 100, "drop")
        spans = [(len(prompt), len(prompt + response))]
        row = encoder.encode([text_row(prompt + response, spans)])[0]
        assert decoded_labels(tokenizer, row) == response
        assert encoder.resegmented == 1


LONG = "word " * 40


def test_a_row_that_is_too_long_is_dropped_and_named(tokenizer):
    text = LONG + "yes<|im_end|>"
    row = encode(tokenizer, text, [(len(LONG), len(text))], max_length=20)
    assert (row["problem"], row["length"], row["input_ids"]) == ("too_long", 0, None)


def test_a_response_that_is_cut_away_drops_the_row(tokenizer):
    text = LONG + "yes<|im_end|>"
    row = encode(tokenizer, text, [(len(LONG), len(text))], 20, "right")
    assert row["problem"] == "response_cut_away"


def test_a_response_that_is_cut_short_learns_no_false_end(tokenizer):
    text = "word " + LONG + "<|im_end|>"
    row = encode(tokenizer, text, [(5, len(text))], 20, "right")
    assert row["length"] == 20
    assert "<|im_end|>" not in decoded_labels(tokenizer, row)


def test_cutting_the_beginning_keeps_the_whole_response(tokenizer):
    text = LONG + "yes<|im_end|>"
    row = encode(tokenizer, text, [(len(LONG), len(text))], 20, "left")
    assert row["length"] == 20
    assert decoded_labels(tokenizer, row) == "yes<|im_end|>"


def test_a_long_text_becomes_several_rows_that_join_to_the_whole(tokenizer):
    text = "Once upon a time there was a river. " * 10 + "<|im_end|>"
    rows = Encoder(tokenizer, 32, "split").encode([text_row(text, [(0, len(text))])])
    assert len(rows) > 3
    assert max(row["length"] for row in rows) == 32
    ids = np.concatenate([row["input_ids"] for row in rows]).tolist()
    assert tokenizer.backend.decode(ids, skip_special_tokens=False) == text
    assert {row["line"] for row in rows} == {3}
    assert all(row["labels"][0] == IGNORED for row in rows)


def test_an_empty_mask_is_an_error_that_names_the_row(tokenizer):
    with pytest.raises(UserError, match=r"f\.jsonl:3: no token of this row would be learned"):
        encode(tokenizer, "Hello", [])


def make_bos_tokenizer(folder, template):
    from tokenizers import Tokenizer as Backend
    from tokenizers.processors import TemplateProcessing

    make_tokenizer(folder, template, bos_token="<s>")
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    bos = backend.token_to_id("<s>")
    backend.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", bos)])
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer(folder)


@pytest.mark.parametrize("style", ["chat", "alpaca", "completion"])
def test_each_row_starts_with_exactly_one_bos(tmp_path, style):
    tokenizer = make_bos_tokenizer(tmp_path / "t", "{{ bos_token }}" + CHATML)
    row = {"instruction": "Hi", "input": "", "output": "Yo"}
    text, spans, _ = Formatter({**CHAT, "style": style}, tokenizer).format(row)
    encoded = encode(tokenizer, text, spans)
    bos = tokenizer.id("<s>")
    assert encoded["input_ids"][0] == bos
    assert (encoded["input_ids"] == bos).sum() == 1
    assert decoded_labels(tokenizer, encoded) == "Yo<|im_end|>"


def test_two_bos_tokens_are_refused(tmp_path):
    tokenizer = make_bos_tokenizer(tmp_path / "t", "{{ bos_token }}{{ bos_token }}" + CHATML)
    text, spans, _ = Formatter(CHAT, tokenizer).format(
        {"instruction": "Hi", "input": "", "output": "Yo"}
    )
    with pytest.raises(UserError, match="starts with two BOS tokens"):
        encode(tokenizer, text, spans)


def user(content):
    return [{"role": "user", "content": content}]


def assistant(content):
    return [{"role": "assistant", "content": content}]


@pytest.mark.parametrize("style", ["chat", "completion"])
def test_a_pair_keeps_its_whole_prompt_and_two_answers(tokenizer, style):
    formatter = Formatter({**CHAT, "style": style}, tokenizer)
    record = {
        "prompt": user("Name a gem."),
        "chosen": assistant("Opal."),
        "rejected": assistant("No."),
    }
    place = {"id": "i", "source": "s", "file": "f", "line": 1}
    row = _format(formatter, {**place, **record})
    made = encode_pairs(Encoder(tokenizer, 100, "drop"), [{**row, "problem": None}])[0]
    decode = tokenizer.backend.decode
    assert "Name a gem." in decode(made["prompt_ids"].tolist(), False)
    assert decode(made["chosen_ids"].tolist(), False) == "Opal.<|im_end|>"
    assert decode(made["rejected_ids"].tolist(), False) == "No.<|im_end|>"
    assert made["length"] == len(made["prompt_ids"]) + max(
        len(made["chosen_ids"]), len(made["rejected_ids"])
    )


def test_earlier_turns_of_a_pair_are_prompt(tokenizer):
    formatter = Formatter(CHAT, tokenizer)
    prompt = user("Hi") + assistant("Hello.") + user("Bye")
    chosen, rejected = format_pair(
        formatter, {"prompt": prompt, "chosen": assistant("Ciao."), "rejected": assistant("")}
    )
    assert [chosen[0][a:b] for a, b in chosen[1]] == ["Ciao.<|im_end|>"]
    assert [rejected[0][a:b] for a, b in rejected[1]] == ["<|im_end|>"]


def test_a_pair_with_a_problem_or_too_long_says_so(tokenizer):
    encoder = Encoder(tokenizer, 8, "drop")
    place = {"id": "i", "source": "s", "file": "f", "line": 1}
    bad = {**place, "text": None, "spans": None, "literals": None, "rejected": None}
    record = {"prompt": user("A gem?"), "chosen": assistant("Opal."), "rejected": assistant("No")}
    long = {**_format(Formatter(CHAT, tokenizer), {**place, **record}), "problem": None}
    made = encode_pairs(encoder, [{**bad, "problem": "template_refused: x"}, long])
    assert [row["problem"] for row in made] == ["template_refused: x", "too_long"]


def test_a_bare_prompt_ends_where_the_answer_begins_and_learns_nothing(tokenizer):
    text, spans, literals = Formatter(CHAT, tokenizer).format({"prompt": user("A gem?")})
    assert text.endswith("<|im_start|>assistant\n")
    encoder = Encoder(tokenizer, 100, "drop", learns=False)
    row = encoder.encode([text_row(text, spans, literals)])[0]
    assert row["supervised"] == 0
    assert tokenizer.backend.decode(row["input_ids"].tolist(), False) == text


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_packing_keeps_every_row_whole_and_within_capacity(lengths):
    sequences = pack(np.array(lengths), 50)
    assert sorted(row for sequence in sequences for row in sequence) == list(range(len(lengths)))
    assert all(sum(lengths[row] for row in sequence) <= 50 for sequence in sequences)
    half_empty = [s for s in sequences if sum(lengths[row] for row in s) <= 25]
    assert len(half_empty) <= 1


def test_positions_restart_at_each_row():
    assert position_ids([3, 1, 2]).tolist() == [0, 1, 2, 0, 0, 1]


def test_an_arrow_shard_opens_with_datasets(tmp_path, tokenizer):
    import datasets
    import pyarrow as pa

    from anneal.arrow_dataset import write_arrow_dataset
    from anneal.records import TOKENS

    row = encode(tokenizer, "ab<|im_end|>", [(1, 12)])
    batch = pa.RecordBatch.from_pylist([row], TOKENS)
    write_arrow_dataset(tmp_path / "d", TOKENS, [batch])
    opened = datasets.load_from_disk(str(tmp_path / "d"))
    assert opened[0]["input_ids"] == row["input_ids"].tolist()
    assert opened.features["input_ids"].feature.dtype == "int32"
