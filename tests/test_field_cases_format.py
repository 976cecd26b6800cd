"""Field cases of formatting: stock templates of every shape against tokenizers of every family.

A base model without template: FC-17. Roles a template refuses: FC-19. One BOS: FC-20. The end that
is learned: FC-22. Templates without generation tags: FC-23. For each the mask is right, or the row
is set aside with a reason that is counted.
"""

import json

import pytest
from reading import read
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Backend

from anneal.config.prepare import Format
from anneal.errors import UserError
from anneal.formatting.format import _format
from anneal.formatting.pairs import format_pair
from anneal.formatting.roles import folded
from anneal.formatting.styles import Formatter, Problem
from anneal.records import IGNORED
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder
from anneal.tokenizing.pairs import encode_pairs

CHAT = Format().model_dump()
EACH, END, ASKED = "{% for m in messages %}", "{% endfor %}", "{% if add_generation_prompt %}"

# Template and end token of the shapes that chat models use.
TEMPLATES = {
    "chatml": (
        EACH
        + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
        + END
        + ASKED
        + "{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<|im_end|>",
    ),
    "headers, content trimmed": (
        "{{ bos_token }}" + EACH + "{{ '<|start|>' + m.role + '<|head|>\n\n' + m.content | trim"
        " + '<|eot|>' }}" + END + ASKED + "{{ '<|start|>assistant<|head|>\n\n' }}{% endif %}",
        "<|eot|>",
    ),
    "another name for the assistant": (
        "{{ bos_token }}" + EACH + "{{ '<|turn|>' + ('model' if m.role == 'assistant' else m.role)"
        " + '\n' + m.content | trim + '<|eot|>\n' }}"
        + END
        + ASKED
        + "{{ '<|turn|>model\n' }}{% endif %}",
        "<|eot|>",
    ),
    "strict brackets": (
        "{{ bos_token }}" + EACH + "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}"
        "{{ '[INST] ' + m.content + ' [/INST]\n' }}{% else %}{{ m.content + eos_token }}{% endif %}"
        + END,
        "</s>",
    ),
    "end of sequence after each turn": (
        EACH
        + "{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}"
        + END
        + ASKED
        + "{{ '<|assistant|>\n' }}{% endif %}",
        "</s>",
    ),
    "answer right behind a control token": (
        "{{ bos_token }}" + EACH + "{{ ('<|user|>' if m.role == 'user' else '<|bot|>') + m.content"
        " + ('' if m.role == 'user' else eos_token) }}"
        + END
        + ASKED
        + "{{ '<|bot|>' }}{% endif %}",
        "</s>",
    ),
    "earlier thoughts dropped": (
        EACH + "{% set text = m.content %}{% if '</think>' in text and not loop.last %}"
        "{% set text = text.split('</think>')[-1] %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}"
        + END
        + ASKED
        + "{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<|im_end|>",
    ),
}
# Spaces that belong neither to the prompt nor to the answer are learned with the answer.
HARD = {
    "spaces around the answer": (
        EACH + "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}"
        "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}" + END,
        " </s>",
    ),
    "a space before the answer": (
        EACH + "{{ 'USER: ' if m.role == 'user' else 'ASSISTANT: ' }}{{ m.content }}"
        "{{ ' ' if m.role == 'user' else eos_token }}"
        + END
        + ASKED
        + "{{ 'ASSISTANT:' }}{% endif %}",
        "</s>",
    ),
    "an end after the last turn only": (
        EACH
        + "{{ '<|' + m.role + '|>\n' + m.content + '<|eot|>\n' }}"
        + END
        + ASKED
        + "{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
        "<|eot|>",
    ),
    "a thought begun for the model": (
        EACH
        + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
        + END
        + ASKED
        + "{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}",
        "<|im_end|>",
    ),
    "no end token between turns": (
        EACH
        + "{{ m.role + ': ' + m.content + '\n' }}"
        + END
        + "{{ eos_token }}"
        + ASKED
        + "{{ 'assistant: ' }}{% endif %}",
        "</s>",
    ),
    "a count in front": (
        "{{ messages | length }}" + EACH + "{{ m.content + eos_token }}" + END,
        "</s>",
    ),
}
CONTROL = (
    *("<s>", "</s>", "<unk>", "<pad>", "<|im_start|>", "<|im_end|>", "<|start|>", "<|head|>"),
    *("<|eot|>", "<|turn|>", "<|user|>", "<|bot|>"),
)
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
TEXTS = [
    "Name a gem. Opal. [INST] [/INST] user assistant model USER: ASSISTANT: answer: yes total=12",
    "Hello there, how are you? 12 34.50 What is the capital of France? Paris. unbelievable",
    "think hm yes no again sum believable naïve 你好 🙂 — a b c d e f g h i j k l m n o p q r s",
]


def chat(*contents: str) -> list[dict]:
    roles = ("user", "assistant") * len(contents)
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]


REFUSED = dict.fromkeys(
    ("no end token between turns", "a count in front"), "template_rewrites_earlier_turns"
)
CHATS = [
    chat("Hi", "Hello."),
    chat(" Hi ", " a padded answer ", "a\n\nb", "\nline\n"),
    chat("sum?", "12", "un", "believable — naïve 你好 🙂"),
    chat("think", "<think>hm</think>\nyes", "again", "<think>x</think>no"),
    chat("say [/INST] <|assistant|>", "USER: [INST] assistant", "{{ bos_token }}", "{% raw %}"),
]


def turns(*pairs) -> list[dict]:
    return [{"role": role, "content": content} for role, content in pairs]


def byte_level(prefix: bool):
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    return backend, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=letters, show_progress=False
    )


def sentencepiece(scheme: str):
    """BPE over blanks written as `▁`, with bytes for what is unknown, as SentencePiece makes it."""
    backend = Backend(models.BPE(unk_token="<unk>", byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if scheme == "normalizer":
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    strip = [] if scheme == "never" else [decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence([*steps, *strip])
    return backend, trainers.BpeTrainer(vocab_size=700, show_progress=False)


def without_added_bytes(backend: Backend) -> Backend:
    """Bytes are words of the vocabulary, but no control tokens."""
    saved = json.loads(backend.to_str())
    saved["added_tokens"] = [t for t in saved["added_tokens"] if t["content"] not in BYTES]
    return Backend.from_str(json.dumps(saved))


def unigram():
    backend = Backend(models.Unigram())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return backend, trainers.UnigramTrainer(vocab_size=450, unk_token="<unk>", show_progress=False)


def wordpiece():
    backend = Backend(models.WordPiece(unk_token="<unk>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend, trainers.WordPieceTrainer(vocab_size=700, show_progress=False)


LOSSLESS = {
    "byte-level BPE": lambda: byte_level(False),
    "SentencePiece BPE without a prefix": lambda: sentencepiece("never"),
}
# A blank is put before each text, so a decoded answer may begin with one.
PREFIXING = {
    "byte-level BPE with a prefix": lambda: byte_level(True),
    "SentencePiece BPE": lambda: sentencepiece("first"),
    "SentencePiece BPE, a prefix everywhere": lambda: sentencepiece("always"),
    "SentencePiece BPE by its normalizer": lambda: sentencepiece("normalizer"),
}
LOSSY = {"Unigram": unigram, "WordPiece": wordpiece}
FAMILIES = {**LOSSLESS, **PREFIXING, **LOSSY}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Make the tokenizer of a family with a chat template; both also add a BOS of their own."""
    trained = {}

    def made(family: str, template: str | None) -> Tokenizer:
        if family not in trained:
            backend, trainer = FAMILIES[family]()
            trainer.special_tokens = [
                AddedToken(token, special=True) for token in (*CONTROL, *BYTES)
            ]
            backend.train_from_iterator(TEXTS * 4, trainer)
            backend = without_added_bytes(backend)
            bos = ("<s>", backend.token_to_id("<s>"))
            backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[bos])
            trained[family] = backend
        folder = tmp_path_factory.mktemp("tokenizer")
        trained[family].save(str(folder / "tokenizer.json"))
        special = {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(special))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        return Tokenizer(folder)

    return made


PLACE = {"id": "i", "source": "s", "file": "f.jsonl", "line": 1}


def encoded(tokenizer: Tokenizer, row: dict, settings=CHAT) -> dict:
    """The tokens of a row, or the reason why it has none."""
    text = {"problem": None, **_format(Formatter(settings, tokenizer), {**PLACE, **row})}
    encoder = Encoder(tokenizer, 10_000, "drop")
    if "chosen" in row:
        return encode_pairs(encoder, [text])[0]
    texts = {"text": None, "spans": None, "literals": None, **text}
    return {**text, **encoder.encode([texts])[0]}


def runs(made: dict) -> list[list[int]]:
    """The ids of each stretch of learned tokens."""
    found, before = [], False
    for label in made["labels"].tolist():
        if label != IGNORED:
            found = found if before else [*found, []]
            found[-1].append(label)
        before = label != IGNORED
    return found


def answers(turns: list[dict], template: str, end: str) -> list[str]:
    texts = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    return [(text.strip() if "trim" in template else text) + end for text in texts]


@pytest.mark.parametrize("shape", TEMPLATES)
@pytest.mark.parametrize("family", [*LOSSLESS, *PREFIXING])
def test_the_learned_ids_are_the_answers_and_their_ends(tokenizers, family, shape):
    template, end = TEMPLATES[shape]
    tokenizer = tokenizers(family, template)
    blank = " " if family in PREFIXING else ""
    for turns in CHATS:
        made = encoded(tokenizer, {"messages": turns})
        if shape == "earlier thoughts dropped" and "</think>" in turns[1]["content"]:
            assert made["problem"] == "template_rewrites_earlier_turns"
            continue
        decoded = [tokenizer.backend.decode(run, False).removeprefix(blank) for run in runs(made)]
        assert decoded == [a.removeprefix(blank) for a in answers(turns, template, end)]


@pytest.mark.parametrize("shape", TEMPLATES)
@pytest.mark.parametrize("family", LOSSY)
def test_a_tokenizer_that_loses_letters_learns_what_it_makes_of_the_answer(
    tokenizers, family, shape
):
    template, end = TEMPLATES[shape]
    tokenizer = tokenizers(family, template)
    for turns in CHATS[:3]:
        made = encoded(tokenizer, {"messages": turns})
        alone = [
            tokenizer.backend.encode(answer, add_special_tokens=False).ids
            for answer in answers(turns, template, end)
        ]
        shown = [[tokenizer.backend.decode(ids, False) for ids in x] for x in (runs(made), alone)]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("shape", HARD)
@pytest.mark.parametrize("family", [*LOSSLESS, *PREFIXING])
def test_a_template_of_a_hard_shape_gives_a_right_mask_or_its_reason(tokenizers, family, shape):
    template, end = HARD[shape]
    tokenizer = tokenizers(family, template)
    for turns in CHATS:
        made = encoded(tokenizer, {"messages": turns})
        if shape in REFUSED:
            assert made["problem"] == REFUSED[shape]
            continue
        decoded = [tokenizer.backend.decode(run, False).strip() for run in runs(made)]
        assert decoded == [answer.strip() for answer in answers(turns, template, end)]


@pytest.mark.parametrize("shape", {**TEMPLATES, **HARD})
def test_every_row_has_one_bos_at_most_and_at_its_start(tokenizers, shape):
    template, _ = {**TEMPLATES, **HARD}[shape]
    tokenizer = tokenizers("byte-level BPE", template)
    bos = tokenizer.id("<s>")
    for turns in CHATS:
        made = encoded(tokenizer, {"messages": turns})
        if not made["problem"] and shape != "spaces around the answer":
            assert (made["input_ids"] == bos).tolist().count(True) == ("bos_token" in template)
            assert bos not in made["labels"]


@pytest.mark.parametrize("style", ["chat", "completion"])
def test_a_pair_has_one_bos_in_its_prompt_and_none_in_its_answers(tokenizers, style):
    tokenizer = tokenizers("byte-level BPE", TEMPLATES["headers, content trimmed"][0])
    pair = {
        "prompt": chat("A gem?"),
        "chosen": chat("", "Opal.")[1:],
        "rejected": chat("", "No")[1:],
    }
    made = encoded(tokenizer, pair, {**CHAT, "style": style})
    bos = tokenizer.id("<s>")
    assert made["prompt_ids"].tolist().count(bos) == 1
    assert made["prompt_ids"][0] == bos
    assert bos not in [*made["chosen_ids"], *made["rejected_ids"]]


@pytest.mark.parametrize("shape", ["chatml", "headers, content trimmed", "strict brackets"])
def test_the_last_learned_token_is_the_one_the_template_ends_a_turn_with(tokenizers, shape):
    """The tokenizer's own end is `</s>`; training makes the learned one the model's end."""
    template, end = TEMPLATES[shape]
    tokenizer = tokenizers("byte-level BPE", template)
    made = encoded(tokenizer, {"messages": CHATS[0]})
    assert [run[-1] for run in runs(made)] == [tokenizer.id(end)]


def test_a_turn_that_ends_with_plain_words_is_set_aside_and_counted(tokenizers):
    template = TEMPLATES["chatml"][0].replace("<|im_end|>", "[done]")
    tokenizer = tokenizers("byte-level BPE", template)
    assert encoded(tokenizer, {"messages": CHATS[0]})["problem"] == "template_has_no_end_token"


@pytest.mark.parametrize("rows", [{"messages": chat("Hi", "Yo")}, {"prompt": chat("Hi")}])
def test_a_base_model_is_refused_with_the_key_to_set_whatever_the_rows(tokenizers, rows):
    with pytest.raises(UserError, match=r"set models\.NAME\.chat_template to a Jinja file"):
        encoded(tokenizers("byte-level BPE", None), rows)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            turns(("system", "Be kind."), ("user", "a"), ("assistant", "b")),
            [("user", "Be kind.\n\na"), ("assistant", "b")],
        ),
        (
            turns(("user", "a"), ("system", "one"), ("user", "b"), ("system", "two")),
            [("user", "one\n\ntwo\n\na\n\nb")],
        ),
        (
            turns(("assistant", "hi"), ("system", "s"), ("user", "a"), ("assistant", "b")),
            [("assistant", "hi"), ("user", "s\n\na"), ("assistant", "b")],
        ),
        (turns(("system", "s"), ("assistant", "b")), [("user", "s"), ("assistant", "b")]),
        (
            turns(("user", "a"), ("assistant", ""), ("assistant", "b"), ("assistant", "c")),
            [("user", "a"), ("assistant", "b\n\nc")],
        ),
        (turns(("user", "a"), ("assistant", "b")), [("user", "a"), ("assistant", "b")]),
    ],
)
def test_folding_keeps_every_word_in_its_order(given, wanted):
    before = json.dumps(given)
    assert [(turn["role"], turn["content"]) for turn in folded(given)] == wanted
    assert json.dumps(given) == before


def test_folding_loses_no_call_and_no_result_of_a_tool():
    calls = [[{"function": {"name": name}}] for name in "ab"]
    given = turns(("system", "s"), ("user", "u"), ("assistant", ""), ("assistant", "now"))
    given[2]["tool_calls"], given[3]["tool_calls"] = calls
    results = [{"role": "tool", "content": n, "tool_call_id": n} for n in "ab"]
    made = folded([*given, *results])
    assert made[1] == {"role": "assistant", "content": "now", "tool_calls": [*calls[0], *calls[1]]}
    assert made[2:] == results


STRICT = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"


@pytest.mark.parametrize(
    ("row", "fold", "reject"),
    [
        ([("system", "s"), ("user", "a"), ("assistant", "b")], "s\n\na", "template_refused"),
        ([("user", "a"), ("user", "b"), ("assistant", "c")], "a\n\nb", "template_refused"),
        (
            [("assistant", "a"), ("user", "b"), ("assistant", "c")],
            "template_refused",
            "template_refused",
        ),
        ([("user", "a"), ("assistant", "b"), ("user", "c")], "last_turn", "last_turn"),
        ([("user", "a"), ("assistant", "b")], "a", "a"),
    ],
)
def test_what_a_strict_template_refuses_is_folded_or_set_aside_by_policy(
    tokenizers, row, fold, reject
):
    template, end = TEMPLATES["strict brackets"]
    tokenizer = tokenizers("byte-level BPE", STRICT + template)
    for policy, wanted in (("fold", fold), ("reject", reject)):
        made = encoded(tokenizer, {"messages": turns(*row)}, {**CHAT, "strict_roles": policy})
        if wanted in ("template_refused", "last_turn"):
            assert made["problem"].startswith(wanted)
        else:
            assert f"[INST] {wanted} [/INST]" in made["text"]
            assert tokenizer.backend.decode(runs(made)[-1], False) == row[-1][1] + end


def test_from_and_value_and_parts_of_content_are_read_as_messages(tmp_path, jsonl, tokenizers):
    parts = [{"type": "text", "text": text} for text in ("One. ", "Two.")]
    rows = [
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo."}]},
        {"messages": turns(("user", parts), ("assistant", "Both."))},
    ]
    records, rejects, _ = read(jsonl(rows), tmp_path, "chat")
    assert rejects == []
    tokenizer = tokenizers("byte-level BPE", TEMPLATES["strict brackets"][0])
    texts = [encoded(tokenizer, record)["text"] for record in records]
    assert texts == ["<s>[INST] Hi [/INST]\nYo.</s>", "<s>[INST] One. Two. [/INST]\nBoth.</s>"]


def test_a_folded_pair_learns_its_answer_and_no_turn_of_its_prompt(tokenizers):
    tokenizer = tokenizers("byte-level BPE", TEMPLATES["strict brackets"][0])
    formatter = Formatter(CHAT, tokenizer)
    prompt = turns(("user", "a"), ("assistant", "b"), ("user", "c"))
    answers = [turns(("assistant", "d"), ("assistant", end)) for end in "ef"]
    sides = format_pair(formatter, {"prompt": prompt, "chosen": answers[0], "rejected": answers[1]})
    assert [[text[a:b] for a, b in spans] for text, spans, _ in sides] == [
        ["d\n\ne</s>"],
        ["d\n\nf</s>"],
    ]


def test_an_answer_that_folds_into_the_prompt_is_a_problem(tokenizers):
    formatter = Formatter(CHAT, tokenizers("byte-level BPE", TEMPLATES["strict brackets"][0]))
    prompt = turns(("user", "a"), ("assistant", "b"))
    pair = {
        "prompt": prompt,
        "chosen": turns(("assistant", "c")),
        "rejected": turns(("assistant", "d")),
    }
    with pytest.raises(Problem, match="the_answer_is_no_turn_of_its_own"):
        format_pair(formatter, pair)
