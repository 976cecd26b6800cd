"""Digest of the code a step runs: its script and every local module it reaches.

Comments, docstrings and layout do not count. `anneal.config` does not count either: what it
decides reaches a step as resolved settings, and those are digested by themselves.
"""

import ast
from functools import cache
from pathlib import Path

from anneal.provenance.digests import digest_text, digest_value

SCRIPTS = Path(__file__).resolve().parents[2]
NOT_CODE = ("anneal.config",)


@cache
def code_digest(script: str, *modules: str) -> str:
    """Digest for `scripts/<script>.py` and its transitive local imports.

    Args:
        modules: what the script imports by a name that its settings give.
    """
    seen: dict[str, str] = {}
    waiting = [SCRIPTS / f"{script}.py", *filter(None, map(_module, modules))]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(SCRIPTS).as_posix()
        if name not in seen:
            text, imported = _parsed(path)
            seen[name] = digest_text(text)
            waiting.extend(imported)
    return digest_value(seen)


@cache
def _parsed(path: Path) -> tuple[str, tuple[Path, ...]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = tuple(sorted({p for node in ast.walk(tree) for p in _imports(node)}))
    return ast.dump(_without_docstrings(tree)), imported


def _imports(node: ast.AST) -> list[Path]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        return []
    return [p for name in names if not name.startswith(NOT_CODE) and (p := _module(name))]


def _module(name: str) -> Path | None:
    plain = SCRIPTS.joinpath(*name.split("."))
    for path in (plain.with_suffix(".py"), plain / "__init__.py"):
        if path.is_file():
            return path
    return None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return tree
