"""The files behind a split of a Hub dataset: `datasets` finds them, our own readers read them.

So types are never guessed, and every row keeps its file and line.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from anneal.errors import UserError


def fetch_files(hub: str, subset: str | None, split: str, revision: str) -> dict[str, str]:
    """Download a split's files into the Hub's cache.

    Args:
        hub: `org/name`, or a local folder laid out like a Hub dataset.

    Returns:
        local path by the name that is shown.

    Raises:
        UserError: no such dataset, revision, subset or split, or no connection.
    """
    import datasets

    remote = _remote_files(hub, subset, split, revision)
    with _reaching(hub):
        local = datasets.DownloadManager().download(remote)
    return {_shown(name): path for name, path in zip(remote, local, strict=True)}


def borrow_files(
    hub: str, subset: str | None, split: str, revision: str
) -> Iterator[tuple[str, str]]:
    """The same files one after the other, each in a temporary file that goes with the next."""
    import fsspec

    for name in _remote_files(hub, subset, split, revision):
        with tempfile.NamedTemporaryFile(prefix="anneal-") as local:
            with _reaching(hub), fsspec.open(name, "rb") as remote:
                shutil.copyfileobj(remote, local)
                local.flush()
            yield _shown(name), local.name


def _remote_files(hub: str, subset: str | None, split: str, revision: str) -> list[str]:
    import datasets

    with _reaching(hub):
        builder = datasets.load_dataset_builder(hub, subset, revision=revision)
    found = builder.config.data_files or {}
    if not found.get(split):
        there = ", ".join(map(str, found)) or "none"
        raise UserError(hub, f"has no split '{split}'", f"name one of: {there}")
    return [str(file) for file in found[split]]


@contextmanager
def _reaching(hub: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the Hub's client raises many kinds
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UserError(hub, what, "check name, revision, subset and connection") from None


def _shown(name: str) -> str:
    return name.removeprefix("hf://datasets/")
