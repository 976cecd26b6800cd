"""The files behind a split of a Hub dataset: `datasets` finds them, our own readers read them.

So types are never guessed, and every row keeps its file and line.
"""

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

    try:
        builder = datasets.load_dataset_builder(hub, subset, revision=revision)
        found = builder.config.data_files or {}
        remote = [str(file) for file in found.get(split, [])]
        local = datasets.DownloadManager(builder.dataset_name).download(remote)
    except Exception as error:  # the Hub's client raises many kinds
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UserError(hub, what, "check name, revision, subset and connection") from None
    if not remote:
        there = ", ".join(map(str, found)) or "none"
        raise UserError(hub, f"has no split '{split}'", f"name one of: {there}")
    return {_shown(name): path for name, path in zip(remote, local, strict=True)}


def _shown(name: str) -> str:
    return name.removeprefix("hf://datasets/")
