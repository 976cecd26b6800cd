"""Write the configuration's reference: config/README.md for people, config/schema.json for editors.

python scripts/document_config.py [--check]
"""

import json
import sys
import typing
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from anneal import cli
from anneal.config.schema import Config

FOLDER = Path(__file__).resolve().parents[1] / "config"
HEAD = """# Configuration reference

Written by `make docs` from the models in `scripts/anneal/config/`; do not edit.
An unknown key is an error at any depth. Every value is read as text and converted to its type, so
`2e-5`, `1_000` and `012` mean what you expect. Editors complete keys with `config/schema.json`.
"""


def main(arguments) -> None:
    schema = json.dumps(Config.model_json_schema(), indent=1, sort_keys=True) + "\n"
    files = {FOLDER / "README.md": reference(), FOLDER / "schema.json": schema}
    if not arguments.check:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return
    stale = [p.name for p, t in files.items() if not p.is_file() or p.read_text("utf-8") != t]
    if stale:
        sys.exit(f"error: config/{', '.join(stale)}: out of date; run `make docs`")


def reference() -> str:
    """All sections as Markdown, each key with type, default and help."""
    return HEAD + "".join(_section(Config, ""))


def _section(model: type[BaseModel], path: str):
    yield f"\n## {path or 'The file'}\n\n{(model.__doc__ or '').strip()}\n\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
    inner = []
    for name, field in model.model_fields.items():
        kind, nested = _kind(field.annotation)
        meaning = " ".join((field.description or "").split())
        yield f"| `{name}` | {kind} | {_default(field)} | {meaning} |\n"
        if nested:
            step = f"{name}.NAME" if typing.get_origin(field.annotation) is dict else name
            inner.append((nested, f"{path}.{step}" if path else step))
    for nested, where in inner:
        yield from _section(nested, where)


def _kind(annotation) -> tuple[str, type[BaseModel] | None]:
    """A readable type, and the section inside it if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section", annotation
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments), None
    if origin is dict:
        kind, nested = _kind(arguments[1])
        return f"{kind} by name", nested
    if origin is list:
        return f"list of {_kind(arguments[0])[0]}", None
    if arguments:
        kinds = [_kind(a) for a in arguments if a is not type(None)]
        return " or ".join(kind for kind, _ in kinds), kinds[0][1]
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(annotation, str(annotation)), None


def _default(field) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or isinstance(value, BaseModel):
        return ""
    return "unset" if value is None else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--check", action="store_true", help="fail if the files are stale")
    cli.run(main, arguments.parse_args())
