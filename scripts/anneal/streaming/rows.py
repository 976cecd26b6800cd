"""The rows of a stream, read once and in order: cleaned, selected and given their side.

These are the functions of the steps read_shard, clean_shard, select_rows and assign_splits, called
batch by batch, so a streamed row meets the fate of a stored one. Only near duplicates are not
looked for: they need all rows at once.
"""

from collections.abc import Iterator

import pyarrow as pa

from anneal.cleaning.clean import clean_rows, pii_remover
from anneal.cleaning.contamination import Index
from anneal.cleaning.filters import broken_rules, check_languages
from anneal.cleaning.texts import full_text
from anneal.records import SCORES
from anneal.sources.read import read_batches, record_maker
from anneal.splitting.assign import side_of
from anneal.splitting.ledger import JOINS
from anneal.streaming.counts import RowCounts
from anneal.streaming.groups import Groups
from anneal.streaming.seen import Seen

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
        for records, rejects in read_batches(shard, reading, maker, BATCH_ROWS):
            rows = clean_rows(records, plan["kind"], remover, plan["clean"])
            decided = selector.decide(rows)
            counts.add(shard["source"], decided, rejects)
            yield [row for row in decided if row["status"] == "kept"]
    counts.finish()


class Selector:
    """Decides on rows in the order in which they come.

    Each kept row costs eight bytes where copies are removed. With `group_by`, its group and its
    prompt are remembered too.
    """

    def __init__(self, plan: dict):
        check_languages(plan["filter"]["languages"])
        self.filter = plan["filter"]
        settings = plan["decontaminate"]
        self.index = Index(plan["tests"], settings["ngram"], settings["coverage"])
        self.seen = Seen() if plan["deduplicate"]["exact"] else None
        self.split = plan["split"]
        self.groups = Groups(self.split) if self.split["group_by"] else None

    def decide(self, rows: list[dict]) -> list[dict]:
        """The rows with `status`, and the `rule` that dropped one or the `split` it is kept in."""
        broken, _ = broken_rules(pa.array([row["scores"] for row in rows], SCORES), self.filter)
        rules = [rule or self._given_away(row) for rule, row in zip(broken, rows, strict=True)]
        left = [i for i, rule in enumerate(rules) if rule is None]
        for i, is_copy in zip(left, self._are_copies([rows[i] for i in left]), strict=True):
            rules[i] = "exact_duplicate" if is_copy else None
        pairs = zip(rows, rules, strict=True)
        return [{**row, **(_dropped(rule) if rule else self._sided(row))} for row, rule in pairs]

    def _given_away(self, row: dict) -> str | None:
        return "contaminated" if self.index.match(full_text(row)) else None

    def _are_copies(self, rows: list[dict]) -> list[bool]:
        if self.seen is None:
            return [False] * len(rows)
        return self.seen.add([int(row["content_key"][:16], 16) for row in rows])

    def _sided(self, row: dict) -> dict:
        side = self.groups.side(row) if self.groups else side_of(row["prompt_key"], self.split)
        return _dropped(JOINS) if side is None else {"status": "kept", "split": side}


def _dropped(rule: str) -> dict:
    return {"status": "dropped", "rule": rule}
