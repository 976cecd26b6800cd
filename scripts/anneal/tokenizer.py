"""A model's tokenizer as the data steps need it: its ids, its special tokens and its template.

Read from `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`, without transformers
(and so without torch): a data step starts in half a second.
"""

import json
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as Backend

from anneal.errors import UserError

NAMES = ("bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


class Tokenizer:
    """The tokenizer files of a model folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        config = self.folder / "tokenizer_config.json"
        self.config = json.loads(config.read_text("utf-8")) if config.is_file() else {}

    @cached_property
    def backend(self) -> Backend:
        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise UserError(str(path), "no such file", "save the model with a fast tokenizer")
        backend = Backend.from_file(str(path))
        backend.no_truncation()
        backend.no_padding()
        return backend

    @cached_property
    def continuing(self) -> Backend:
        """The same tokenizer for a text that goes on: it puts no blank in front."""
        settings = json.loads(self.backend.to_str())
        settings["normalizer"] = _without_blank(settings["normalizer"])
        settings["pre_tokenizer"] = _without_blank(settings["pre_tokenizer"])
        return Backend.from_str(json.dumps(settings))

    @cached_property
    def special(self) -> dict[str, str]:
        """Special tokens by name, as the chat template sees them."""
        values = {name: self.config.get(name) for name in NAMES}
        return {n: v["content"] if isinstance(v, dict) else v for n, v in values.items() if v}

    @cached_property
    def control(self) -> list[str]:
        """Texts that the tokenizer turns into one control token wherever they stand."""
        added = self.backend.get_added_tokens_decoder().values()
        return sorted({t.content for t in added if t.special} | set(self.special.values()))

    @cached_property
    def chat_template(self) -> str | None:
        path = self.folder / "chat_template.jinja"
        return path.read_text("utf-8") if path.is_file() else self.config.get("chat_template")

    @cached_property
    def bos(self) -> str:
        """The BOS text, if this tokenizer starts each sequence with it; else nothing."""
        token = self.special.get("bos_token", "")
        ids = self.backend.encode("a", add_special_tokens=True).ids
        return token if token and ids[:1] == [self.id(token)] else ""

    def id(self, token: str) -> int | None:
        return self.backend.token_to_id(token)


def _without_blank(part: dict | None) -> dict | None:
    """A normalizer or pre-tokenizer that adds nothing to the beginning of a text."""
    if part is None or part["type"] == "Prepend":
        return None
    for name in ("normalizers", "pretokenizers"):
        if name in part:
            inner = [kept for piece in part[name] if (kept := _without_blank(piece))]
            return {**part, name: inner} if inner else None
    changed = {"add_prefix_space": False, "prepend_scheme": "never"}
    return {**part, **{name: value for name, value in changed.items() if name in part}}
