"""From a record to its text and the character spans that are to be learned.

Each style returns (text, spans); a span is [start, end) in characters and covers one response and
its end token, nothing else.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import jinja2

from anneal.formatting.literals import Spans, hidden, hide, shown
from anneal.formatting.roles import folded
from anneal.formatting.template import ChatTemplate, prompt_template
from anneal.tokenizer import Tokenizer

PLAIN = ("instruction", "input", "output", "text")
TURNS = ("messages", "prompt")

# The prompt of Stanford Alpaca (github.com/tatsu-lab/stanford_alpaca), to the letter.
ALPACA = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:"
)
ALPACA_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


class Problem(Exception):
    """This record has no text in this style; the message is the reason, counted in the ledger."""


@contextmanager
def _refusals() -> Iterator[None]:
    """What a template refuses is a problem of the row."""
    try:
        yield
    except jinja2.TemplateError as error:
        raise Problem(f"template_refused: {error}") from None


class Formatter:
    """Formats records in the chosen style for one tokenizer."""

    def __init__(self, settings: dict, tokenizer: Tokenizer):
        self.style, self.system = settings["style"], settings["system"]
        self.tokenizer, self.fold, self.folded = tokenizer, settings["strict_roles"] == "fold", 0
        if self.style == "chat":
            self.template = ChatTemplate(tokenizer)
        elif self.style == "template":
            self.prompt = prompt_template(settings["template_file"])

    def format(self, row: dict) -> tuple[str, Spans, Spans]:
        """Text, supervised spans, and the spans of control tokens that are only text.

        Raises:
            Problem: the record does not fit the style or the template.
        """
        names = hide(_texts(row), self.tokenizer.control)
        if not names:
            return *self._format(row), []
        text, spans = self._format(_hidden(row, names))
        return shown(text, spans, names)

    def _format(self, row: dict) -> tuple[str, Spans]:
        if "prompt" in row:
            return self._prompt(row["prompt"]), []
        if self.style == "chat" and "text" not in row:
            tools = json.loads(row["tools"]) if row.get("tools") else None
            return self._chat(messages(row, self.system), tools)
        prompt, response = self._plain(row)
        before = self.tokenizer.bos + prompt
        if not before and "text" not in row:
            before = self._opening()
        text = before + response + self.tokenizer.special.get("eos_token", "")
        return text, [(len(before), len(text))]

    def _opening(self) -> str:
        """What stands for an empty prompt: the first token of a row is seen and never learned."""
        special = self.tokenizer.special
        opening = special.get("bos_token") or special.get("eos_token")
        if not opening:
            raise Problem("prompt_is_empty")
        return opening

    def _prompt(self, turns: list[dict]) -> str:
        """A bare prompt, up to where the model begins to answer."""
        if self.style != "chat":
            return self.tokenizer.bos + plain(turns)
        turns = messages({"messages": turns}, self.system)
        with _refusals():
            return self.template.render(turns, add_generation_prompt=True)

    def _plain(self, row: dict) -> tuple[str, str]:
        if "text" in row:
            return "", row["text"]
        if self.style == "template":
            with _refusals():
                return self.prompt.render(row), row["output"]
        if self.style == "alpaca":
            prompt = ALPACA_INPUT if row["input"] else ALPACA
            return prompt.format_map(row), row["output"]
        return user_text(row), row["output"]

    def _chat(self, turns: list[dict], tools: list | None) -> tuple[str, Spans]:
        if turns[-1]["role"] != "assistant":
            raise Problem("last_turn_is_not_the_assistant's")
        with _refusals():
            try:
                return self._rendered(turns, tools)
            except jinja2.TemplateError:
                again = folded(turns)
                if not self.fold or again == turns:
                    raise
            self.folded += 1
            return self._rendered(again, tools)

    def _rendered(self, turns: list[dict], tools: list | None) -> tuple[str, Spans]:
        render = partial(self.template.render, tools=tools)
        text = render(turns)
        answers = [i for i, turn in enumerate(turns) if turn["role"] == "assistant"]
        return text, [self._span(turns, i, text, render) for i in answers]

    def _span(self, turns: list[dict], i: int, text: str, render) -> tuple[int, int]:
        """Where answer `i` stands: what the template adds to the prompt that precedes it."""
        start = self._seam(turns, i, text, render)
        content = self._content_at(text, start, turns[i]["content"])
        if content is None:
            last = i == len(turns) - 1
            what = "changes_the_response" if last else "rewrites_earlier_turns"
            raise Problem(f"template_{what}")
        if "tool_calls" not in turns[i]:
            return start, self._end(text, content)
        after = text if i == len(turns) - 1 else render(turns[: i + 1])
        return start, self._last_end(text[: _shared(text, after)], start)

    def _seam(self, turns: list[dict], i: int, text: str, render) -> int:
        """Where the prompt of answer `i` ends.

        A generation prompt may open a part, such as `<think>`, that answers in the data lack.
        """
        prompt = render(turns[:i], add_generation_prompt=True)
        seam = _shared(text, prompt)
        if seam == len(prompt):
            return seam
        before = render(turns[:i])
        if seam < len(before):
            raise Problem("template_rewrites_earlier_turns")
        answer = text.find(turns[i]["content"].strip(), len(before))
        return min(seam, answer) if answer >= 0 else seam

    def _content_at(self, text: str, start: int, content: str) -> int | None:
        """Where the answer's own text ends; the template may strip it, or put a blank in front."""
        blanks = len(text) - start - len(text[start:].lstrip())
        for answer in (content, content.strip()):
            for at in (start, start + blanks):
                if text.startswith(answer, at):
                    return at + len(answer)
        return None

    def _end(self, text: str, position: int) -> int:
        """Position after the first control token that follows the response."""
        ends = [
            (at, -len(t)) for t in self.tokenizer.control if (at := text.find(t, position)) >= 0
        ]
        if not ends:
            raise Problem("template_has_no_end_token")
        at, minus_length = min(ends)
        return at - minus_length

    def _last_end(self, text: str, position: int) -> int:
        """Position after the last control token: tool calls may hold control tokens themselves."""
        control = self.tokenizer.control
        ends = [at + len(t) for t in control if (at := text.rfind(t, position)) >= 0]
        if not ends:
            raise Problem("template_has_no_end_token")
        return max(ends)


def _shared(a: str, b: str) -> int:
    """Length of the common beginning of two texts."""
    if a.startswith(b):
        return len(b)
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))


def messages(row: dict, system: str | None) -> list[dict]:
    """The conversation of a record; `system` is put first where there is no system message."""
    turns = [_turn(turn) for turn in row.get("messages") or ()] or [
        {"role": "user", "content": user_text(row)},
        {"role": "assistant", "content": row["output"]},
    ]
    if system is not None and turns[0]["role"] != "system":
        turns = [{"role": "system", "content": system}, *turns]
    return turns


def _turn(turn: dict) -> dict:
    """A message as templates know it: nothing that is null, and tool calls as objects."""
    kept = {name: value for name, value in turn.items() if value is not None}
    if "tool_calls" in kept:
        kept["tool_calls"] = json.loads(kept["tool_calls"])
    return kept


def user_text(row: dict) -> str:
    """Instruction and input as one request."""
    return f"{row['instruction']}\n\n{row['input']}" if row["input"] else row["instruction"]


def plain(turns: list[dict]) -> str:
    """A prompt or an answer that is one message.

    Raises:
        Problem: it is a conversation, which only a chat template can show.
    """
    if len(turns) != 1:
        raise Problem("a_conversation_needs_style_chat")
    return turns[0]["content"]


def _texts(row: dict) -> list[str]:
    turns = [turn for name in TURNS for turn in row.get(name) or ()]
    return [turn["content"] for turn in turns] + [row[n] for n in PLAIN if n in row]


def _hidden(row: dict, names: dict[str, str]) -> dict:
    changed = {name: hidden(row[name], names) for name in PLAIN if name in row}
    for name in TURNS:
        if name in row:
            turns = row[name]
            changed[name] = [{**t, "content": hidden(t["content"], names)} for t in turns]
    return {**row, **changed}
