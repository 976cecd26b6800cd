"""The tokenizer's own chat template, rendered in a sandbox as transformers renders it.

`strftime_now` is left undefined: templates that know it fall back to their fixed date, so the same
row gives the same text on any day.
"""

import json
from functools import cached_property
from pathlib import Path

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from anneal.errors import UserError
from anneal.tokenizer import Tokenizer


def prompt_template(path: str) -> jinja2.Template:
    """A user's own prompt template; names it does not know are errors.

    Raises:
        UserError: no such file, or not valid Jinja.
    """
    try:
        text = Path(path).read_text("utf-8")
        sandbox = ImmutableSandboxedEnvironment(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True
        )
        return sandbox.from_string(text)
    except OSError:
        raise UserError("format.template_file", f"no file '{path}'", "check the path") from None
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"{path}:{error.lineno}", str(error), "mend the template") from None


class ChatTemplate:
    """Renders conversations.

    Raises:
        UserError: the tokenizer has no template, or it is not valid Jinja.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise UserError(
                "datasets.*.format.style",
                f"'chat' needs a chat template, and the model in {tokenizer.folder} has none",
                "set models.NAME.chat_template to a Jinja file, or use style 'alpaca'",
            )

    @cached_property
    def compiled(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        try:
            return environment.from_string(self.tokenizer.chat_template)
        except jinja2.TemplateSyntaxError as error:
            raise UserError(f"chat template line {error.lineno}", str(error)) from None

    def render(
        self, messages: list[dict], add_generation_prompt: bool = False, tools: list | None = None
    ) -> str:
        """The conversation as one text.

        Raises:
            jinja2.TemplateError: the template refuses this conversation.
        """
        return self.compiled.render(
            messages=messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            **self.tokenizer.special,
        )


def _tojson(value, indent=None, ensure_ascii=False, separators=None, sort_keys=False) -> str:
    return json.dumps(
        value,
        indent=indent,
        ensure_ascii=ensure_ascii,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str):
    raise jinja2.TemplateError(message)
