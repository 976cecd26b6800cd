"""YAML in which every scalar stays text until the schema says what it is.

So `2e-5`, `012`, `1_000`, `no` and `2026-11-03` mean what their field says, not what YAML guesses.
"""

from pathlib import Path

import yaml

from anneal.errors import UserError

NULLS = ("", "~", "null", "Null", "NULL")
Path_ = tuple[str | int, ...]


def read_yaml(path: str | Path) -> tuple[object, dict[Path_, int]]:
    """Values of a YAML file, and the 1-based line of every key path in it."""
    try:
        with Path(path).open(encoding="utf-8-sig") as stream:
            node = yaml.compose(stream, Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise UserError(str(path), "no such file", "name one with --configfile") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or "not UTF-8 text"
        raise UserError(f"{path}{line}", f"not valid YAML: {what}") from None
    lines: dict[Path_, int] = {}
    return (_value(node, (), lines, path) if node else {}), lines


def _value(node: yaml.Node, at: Path_, lines: dict[Path_, int], path):
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, at, lines, path)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*at, i), lines, path) for i, item in enumerate(node.value)]
    return None if node.style is None and node.value in NULLS else node.value


def _mapping(node: yaml.MappingNode, at: Path_, lines: dict[Path_, int], path) -> dict:
    merged, own = {}, {}
    for key_node, value_node in node.value:
        key, line = key_node.value, key_node.start_mark.line + 1
        if key == "<<" and key_node.style is None:
            parts = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for part in reversed(parts):
                merged.update(_value(part, at, lines, path))
            continue
        if key in own:
            raise UserError(f"{path}:{line}", f"key '{key}' is given twice")
        lines[(*at, key)] = line
        own[key] = _value(value_node, (*at, key), lines, path)
    return merged | own
