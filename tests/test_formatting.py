"""Formatting: the template's own text, and spans that hold the response and its end, no more."""

import json

import pytest
from tiny import CHATML, make_tokenizer

from anneal.errors import UserError
from anneal.formatting.styles import Formatter, Problem, messages
from anneal.formatting.template import ChatTemplate
from anneal.tokenizer import Tokenizer

TAGLESS = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<' + m['role'] + '> ' + m['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)
STRICT = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
) + CHATML
STRIPPING = CHATML.replace("message['content']", "message['content'] | trim")

ROW = {"instruction": "Add.", "input": "1 + 1", "output": "2"}
CHAT = {
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "Farewell."},
    ]
}


def formatter(tmp_path, template=CHATML, style="chat", system=None, roles="fold", file=None):
    settings = {"style": style, "system": system, "strict_roles": roles, "template_file": file}
    return Formatter(settings, Tokenizer(make_tokenizer(tmp_path / "t", template)))


def learned(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("template", "end"),
    [(CHATML, "<|im_end|>"), (TAGLESS, "<|im_end|>"), (STRIPPING, "<|im_end|>")],
)
def test_each_response_is_learned_with_its_end_token_on_templates_without_tags(
    tmp_path, template, end
):
    text, spans, _ = formatter(tmp_path, template).format(CHAT)
    assert learned(text, spans) == [f"Hello.{end}", f"Farewell.{end}"]


def test_the_chat_text_is_what_transformers_renders(tmp_path):
    from transformers import AutoTokenizer

    folder = make_tokenizer(tmp_path / "t", TAGLESS)
    theirs = AutoTokenizer.from_pretrained(folder)
    ours = ChatTemplate(Tokenizer(folder))
    for turns in (CHAT["messages"], messages(ROW, ""), messages(ROW, None)):
        for prompt in (False, True):
            wanted = theirs.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
            assert ours.render(turns, add_generation_prompt=prompt) == wanted


def test_a_system_message_is_put_first_only_where_there_is_none():
    assert messages(ROW, "Be brief.")[0] == {"role": "system", "content": "Be brief."}
    own = {"messages": [{"role": "system", "content": "Mine."}, *CHAT["messages"]]}
    assert messages(own, "Be brief.")[0]["content"] == "Mine."
    assert messages(ROW, None)[0]["role"] == "user"


def test_alpaca_has_two_prompts_and_ends_with_eos(tmp_path):
    style = formatter(tmp_path, style="alpaca")
    text, spans, _ = style.format(ROW)
    assert text.startswith("Below is an instruction that describes a task, paired with an input")
    assert "### Input:\n1 + 1\n\n### Response:" in text
    assert learned(text, spans) == ["2<|im_end|>"]
    text, spans, _ = style.format({**ROW, "input": ""})
    assert "### Input" not in text
    assert text.endswith("### Instruction:\nAdd.\n\n### Response:2<|im_end|>")


def test_braces_in_the_data_are_text_to_the_alpaca_prompt(tmp_path):
    row = {**ROW, "instruction": "Explain {input} and {0}."}
    assert "Explain {input} and {0}." in formatter(tmp_path, style="alpaca").format(row)[0]


def test_a_model_without_chat_template_is_refused_at_once_with_the_key_to_set(tmp_path):
    with pytest.raises(UserError, match=r"set models\.NAME\.chat_template"):
        formatter(tmp_path, template=None)


@pytest.mark.parametrize(
    ("template", "row", "reason"),
    [
        (CHATML, {"messages": [{"role": "user", "content": "s"}]}, "last_turn_is_not"),
        (CHATML.replace("message['content']", "message['content'] | upper"), ROW, None),
        (
            CHATML.replace("message['content']", "message['content'] | upper"),
            {**ROW, "output": "two"},
            "template_changes_the_response",
        ),
        (
            "{% for m in messages %}{{ m['content'] }} {% endfor %}",
            ROW,
            "template_has_no_end_token",
        ),
        (
            "{{ messages | length }}{% for m in messages %}{{ m['content'] }}{{ eos_token }}"
            "{% endfor %}",
            ROW,
            "template_rewrites_earlier_turns",
        ),
    ],
)
def test_a_row_that_cannot_be_masked_is_set_aside_with_the_reason(tmp_path, template, row, reason):
    if reason is None:
        formatter(tmp_path, template).format(row)
        return
    with pytest.raises(Problem, match=reason):
        formatter(tmp_path, template).format(row)


def test_a_template_cannot_reach_python(tmp_path):
    template = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(Problem, match="template_refused"):
        formatter(tmp_path, template).format(CHAT)


ALTERNATING = (
    "{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) or m['role'] == 'system' %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '[' + m['role'] + '] ' + m['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant] ' }}{% endif %}"
)


def turns(*pairs):
    return {"messages": [{"role": role, "content": content} for role, content in pairs]}


def test_what_a_strict_template_refuses_is_folded_and_nothing_is_lost(tmp_path):
    style = formatter(tmp_path, ALTERNATING)
    row = turns(("system", "Be kind."), ("user", "a"), ("user", "b"), ("assistant", "c"))
    text, spans, _ = style.format(row)
    assert text.startswith("[user] Be kind.\n\na\n\nb<|im_end|>[assistant] c")
    assert learned(text, spans) == ["c<|im_end|>"]
    assert style.folded == 1


def test_by_policy_it_is_set_aside_instead(tmp_path):
    row = turns(("system", "Be kind."), ("user", "a"), ("assistant", "c"))
    with pytest.raises(Problem, match="template_refused: roles must alternate"):
        formatter(tmp_path, ALTERNATING, roles="reject").format(row)


def test_a_conversation_that_opens_with_the_assistant_is_set_aside(tmp_path):
    row = turns(("assistant", "hi"), ("user", "a"), ("assistant", "c"))
    with pytest.raises(Problem, match="template_refused"):
        formatter(tmp_path, ALTERNATING).format(row)


def test_a_prompt_template_of_the_users_own(tmp_path):
    file = tmp_path / "prompt.jinja"
    file.write_text("Q: {{ instruction }} ({{ category }})\nA: ")
    text, spans, _ = formatter(tmp_path, style="template", file=str(file)).format(
        {**ROW, "category": "sum"}
    )
    assert text == "Q: Add. (sum)\nA: 2<|im_end|>"
    assert learned(text, spans) == ["2<|im_end|>"]


def test_a_prompt_template_with_an_unknown_name_is_a_problem_and_a_broken_one_an_error(tmp_path):
    file = tmp_path / "prompt.jinja"
    file.write_text("{{ instruktion }}")
    with pytest.raises(Problem, match="template_refused: 'instruktion' is undefined"):
        formatter(tmp_path, style="template", file=str(file)).format(ROW)
    file.write_text("ok\n{{ instruction ")
    with pytest.raises(UserError, match=r"prompt\.jinja:2"):
        formatter(tmp_path, style="template", file=str(file))


def test_raw_text_is_learned_from_its_first_to_its_end_token(tmp_path):
    text, spans, _ = formatter(tmp_path).format({"text": "Once upon a time."})
    assert learned(text, spans) == ["Once upon a time.<|im_end|>"]


TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\n' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] }}"
    "{% for call in m.tool_calls %}"
    "{{ '<call>' + call.function.name + (call.function.arguments | tojson) + '</call>' }}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_tools_and_tool_calls_survive_and_the_call_is_learned(tmp_path):
    call = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]
    row = turns(("user", "1+1?"), ("assistant", ""), ("tool", "2"), ("assistant", "Two."))
    row["messages"][1] |= {"tool_calls": json.dumps(call), "name": None}
    row["tools"] = json.dumps([{"name": "add"}])
    text, spans, _ = formatter(tmp_path, TOOLS).format(row)
    assert text.startswith('<|im_start|>system\n[{"name": "add"}]<|im_end|>')
    assert learned(text, spans) == ['<call>add{"a": 1}</call><|im_end|>', "Two.<|im_end|>"]
