"""Kinds: each has its fields, plain text and messages meet in one form, and nothing is guessed."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read

from anneal.cleaning.texts import full_text, prompt_and_response, repaired

HI, HELLO, HEY = ("user", "Hi"), ("assistant", "Hello"), ("assistant", "Hey")


def turns(*pairs):
    return [{"role": role, "content": text} for role, text in pairs]


def said(messages):
    return [(m["role"], m["content"]) for m in messages]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", "chosen": "Hello", "rejected": "Hey"},
        {"prompt": turns(HI), "chosen": turns(HELLO), "rejected": turns(HEY)},
        {"prompt": turns(HI), "chosen": turns(HI, HELLO), "rejected": turns(HI, HEY)},
        {"prompt": "Hi", "chosen": turns(HI, HELLO), "rejected": turns(HI, HEY)},
        {"chosen": turns(HI, HELLO), "rejected": turns(HI, HEY)},
        {"prompt": "Hi", "chosen": turns(HELLO)[0], "rejected": "Hey"},
    ],
)
def test_every_form_of_a_preference_is_the_same_record(tmp_path, jsonl, row):
    plain = {"prompt": "Hi", "chosen": "Hello", "rejected": "Hey"}
    records, rejects, _ = read(jsonl([plain, row]), tmp_path, "preference")
    assert rejects == []
    assert said(records[1]["prompt"]) == [HI]
    assert said(records[1]["chosen"]) == [HELLO]
    assert said(records[1]["rejected"]) == [HEY]
    assert records[0]["id"] == records[1]["id"]


def test_what_both_answers_begin_with_is_prompt(tmp_path, jsonl):
    system, more = ("system", "Be brief."), ("user", "And?")
    both = [
        {"chosen": turns(system, HI, HELLO, more, HEY), "rejected": turns(system, HI, HELLO, more)},
        {"prompt": "Hi", "chosen": turns(system, HI, HELLO), "rejected": turns(system, HI, HEY)},
        {"prompt": "Hi", "chosen": turns(HELLO, more, HELLO), "rejected": turns(HELLO, more, HEY)},
    ]
    records, _, _ = read(jsonl(both), tmp_path, "preference")
    assert [said(r["prompt"]) for r in records] == [
        [system, HI, HELLO],
        [system, HI],
        [HI, HELLO, more],
    ]
    assert said(records[0]["rejected"]) == [more]


def test_a_preference_without_a_preference_is_set_aside(tmp_path, jsonl):
    rows = [
        {"prompt": "Hi", "chosen": "Hey", "rejected": "Hey"},
        {"chosen": "Hello", "rejected": "Hey"},
        {"prompt": "Bye", "chosen": turns(HI, HELLO), "rejected": turns(HI, HEY)},
        {"prompt": "Hi", "chosen": "Hey"},
        {"prompt": 7, "chosen": "Hey", "rejected": []},
    ]
    _, rejects, counts = read(jsonl(rows), tmp_path, "preference")
    assert [r["reason"] for r in rejects] == [
        "'chosen' and 'rejected' are equal",
        "'prompt' is missing, and 'chosen' and 'rejected' share none",
        "'prompt' differs from the one inside 'chosen' and 'rejected'",
        "'rejected' is missing or null",
        "'rejected' must be a list of messages",
    ]
    assert counts["converted"] == {"prompt: number to text": 1}


def test_prompts_are_text_or_messages_and_keep_their_other_columns(tmp_path, jsonl):
    rows = [{"prompt": "1+1?", "answer": 2}, {"prompt": turns(("user", "1+1?")), "answer": 2}]
    records, _, _ = read(jsonl(rows), tmp_path, "prompts")
    assert records[0]["id"] == records[1]["id"]
    assert json.loads(records[0]["extra"]) == {"answer": 2}


def test_text_is_read_from_the_column_that_is_named(tmp_path, jsonl):
    records, _, _ = read(
        jsonl([{"body": "Some text."}]), tmp_path, "text", columns={"text": "body"}
    )
    assert records[0]["text"] == "Some text."


CALL = {"id": "c1", "type": "function", "function": {"name": "sum", "arguments": '{"a": 1}'}}
TOOLS = [{"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}}]


def test_tool_calls_their_answers_and_the_tools_are_kept(tmp_path, jsonl):
    row = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Add "}, {"text": "them"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "weight": 1},
            {"role": "tool", "content": "3", "name": "sum", "tool_call_id": "c1"},
            {"role": "assistant", "content": "3", "tool_calls": []},
        ],
        "tools": TOOLS,
    }
    as_text = {**row, "messages": json.dumps(row["messages"]), "tools": json.dumps(TOOLS)}
    records, rejects, counts = read(jsonl([row, as_text]), tmp_path, "chat")
    assert rejects == []
    ask, call, answer, end = records[0]["messages"]
    assert ask["content"] == "Add them"
    assert (call["content"], json.loads(call["tool_calls"])) == ("", [CALL])
    assert (answer["name"], answer["tool_call_id"], answer["tool_calls"]) == ("sum", "c1", None)
    assert end["tool_calls"] is None
    assert json.loads(records[0]["tools"]) == TOOLS
    assert records[0]["id"] == records[1]["id"]
    assert counts["converted"] == {
        "messages: JSON text": 1,
        "messages: left out 'weight'": 2,
        "tools: JSON text": 1,
    }


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"role": "assistant", "content": None}, "'messages[0].content' must be text"),
        ({"role": "user", "content": [{"type": "image"}]}, "has a part that is no text"),
        ({"role": "user", "content": "x", "tool_calls": "no"}, "is text, and not JSON"),
        ({"role": "user", "content": "x", "tool_calls": {"a": 1}}, "must be a list of objects"),
        ({"role": ["user"], "content": "x"}, "unknown role"),
        ("Hi", "must be an object"),
    ],
)
def test_a_bad_message_is_set_aside_with_its_place(tmp_path, jsonl, turn, reason):
    _, rejects, _ = read(jsonl([{"messages": [turn]}]), tmp_path, "chat")
    assert reason in rejects[0]["reason"]


def test_messages_in_parquet_read_like_those_in_json(tmp_path, jsonl):
    rows = [{"messages": turns(HI, HELLO)}, {"messages": turns(HEY)}]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    ids = [[r["id"] for r in read(p, tmp_path, "chat")[0]] for p in (path, jsonl(rows))]
    assert ids[0] == ids[1]


def test_a_number_that_would_lose_digits_is_set_aside(tmp_path):
    path = tmp_path / "x"
    path.write_text('{"text": 123456789012345678901234567890}\n{"text": 0.1}\n')
    records, rejects, _ = read(path, tmp_path, "text")
    assert [r["text"] for r in records] == ["0.1"]
    assert "without loss" in rejects[0]["reason"]


def test_tags_ride_along(tmp_path, jsonl):
    records, _, _ = read(jsonl([{"text": "x", "tags": "own"}]), tmp_path, "text", tags=["web"])
    assert json.loads(records[0]["extra"]) == {"tags": "own", "source_tags": ["web"]}


@pytest.mark.parametrize(
    ("kind", "row", "expected"),
    [
        ("instruction", {"instruction": "a", "input": "b", "output": "c"}, ("a\nb", "c")),
        ("chat", {"messages": turns(HI, HELLO)}, ("user: Hi", "Hello")),
        (
            "preference",
            {"prompt": turns(HI), "chosen": turns(HELLO), "rejected": turns(HEY)},
            ("user: Hi", "Hello"),
        ),
        ("prompts", {"prompt": turns(HI)}, ("user: Hi", "user: Hi")),
        ("text", {"text": "some"}, ("some", "some")),
    ],
)
def test_every_kind_has_a_prompt_and_a_response(kind, row, expected):
    assert prompt_and_response(row) == expected
    assert repaired(row, kind, str.upper) != row
    assert all(text in full_text(row) for text in expected[1].split(": ")[-1:])


def test_texts_inside_tool_calls_are_repaired_and_stay_json():
    turn = {"role": "assistant", "content": "", "tool_calls": json.dumps([CALL])}
    row = {"messages": [turn]}
    done = repaired(row, "chat", lambda text: text.replace("sum", "[NAME]").replace("a", "é"))
    call = json.loads(done["messages"][0]["tool_calls"])[0]
    assert call["function"]["name"] == "[NAME]"
    assert json.loads(call["function"]["arguments"]) == {"a": 1}
    assert full_text(row) != full_text({"messages": [{**turn, "tool_calls": None}]})
