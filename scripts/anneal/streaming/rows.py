"""The rows of a stream, read once and in order: cleaned, selected and given their side.

These are the functions of the steps read_shard, clean_shard, select_rows and assign_splits, called
batch by batch, so a streamed row meets the fate of a stored one. Only near duplicates are not
looked for: they need all rows at once.
"""

from collections.abc import Iterator

from anneal.cleaning.clean import clean_rows, pii_remover
from anneal.cleaning.contamination import Index
from anneal.cleaning.filters import broken_rule, check_languages, limits
from anneal.cleaning.texts import full_text
from anneal.sources.read import read_batches, record_maker
from anneal.splitting.assign import assign
from anneal.splitting.groups import JOINS, Groups
from anneal.streaming.counts import RowCounts

BATCH_ROWS = 500


def kept_rows(plan: dict, counts: RowCounts) -> Iterator[list[dict]]:
    """One pass over all shards: batches of cleaned rows that were kept, each with its `split`.

    Args:
        plan: `shards`, each as `Shard.as_source()`, and the settings of the steps by their names;
            `reading` has those of each source.
        counts: takes down what became of every row.

    Raises:
        UserError: the sources are empty, or too many of their rows are unreadable.
    """
    selector, remover = Selector(plan), pii_remover(plan["clean"])
    counts.review = remover.review
    for shard in plan["shards"]:
        reading = {"kind": plan["kind"], **plan["reading"][shard["source"]]}
        maker = record_maker(reading)
        maker.values.converted = counts.converted
        for records, rejects in read_batches(shard, reading, maker, BATCH_ROWS, keep=False):
            rows = clean_rows(records, plan["kind"], remover, plan["clean"])
            decided = [{**row, **selector.decide(row)} for row in rows]
            counts.add(shard["source"], decided, rejects)
            yield [row for row in decided if row["status"] == "kept"]
    counts.finish()


class Selector:
    """Decides on rows in the order in which they come.

    Each kept row costs memory where copies are removed: its 64-bit content key. With `group_by`,
    each group does too.
    """

    def __init__(self, plan: dict):
        check_languages(plan["filter"]["languages"])
        self.filter, self.bounds = plan["filter"], limits(plan["filter"])
        settings = plan["decontaminate"]
        self.index = Index(plan["tests"], settings["ngram"], settings["coverage"])
        self.exact, self.seen = plan["deduplicate"]["exact"], set()
        self.split = plan["split"]
        self.groups = Groups(self.split) if self.split["group_by"] else None

    def decide(self, row: dict) -> dict:
        """`status`, and the `rule` that dropped the row or the `split` it is kept in."""
        if rule := self._rule(row):
            return {"status": "dropped", "rule": rule}
        side = self.groups.side(row) if self.groups else self._side(row)
        if side is None:
            return {"status": "dropped", "rule": JOINS}
        return {"status": "kept", "split": side}

    def _rule(self, row: dict) -> str | None:
        if broken := broken_rule(row["scores"], self.filter, self.bounds):
            return broken[0]
        if self.index.match(full_text(row)):
            return "contaminated"
        return "exact_duplicate" if self.exact and self._is_copy(row) else None

    def _is_copy(self, row: dict) -> bool:
        key = int(row["content_key"][:16], 16)
        if key in self.seen:
            return True
        self.seen.add(key)
        return False

    def _side(self, row: dict) -> str:
        return assign(
            row["prompt_key"], self.split["seed"], self.split["train"], self.split["eval"]
        )
