"""A progress bar over batches of rows: shown on a terminal, silent in a log."""

from collections.abc import Iterable, Iterator

from tqdm import tqdm


def progress(batches: Iterable, what: str, total: int | None = None) -> Iterator:
    """Yield the batches; the bar counts their rows."""
    with tqdm(total=total, desc=what, unit=" rows", disable=None, leave=False) as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch))
