"""Gates: figures about a split that must hold before anything is trained on it.

Everything is asked of the finished ledger, by SQL, so it may be larger than the memory.
"""

from collections import Counter
from pathlib import Path

from pyarrow.dataset import dataset

from anneal.duck import connect
from anneal.errors import UserError
from anneal.splitting.assign import SPLITS

EXPECTED = 5


def ask(ledger: Path, sql: str) -> list[tuple]:
    """Rows of a query over the table `ledger`."""
    with connect() as db:
        db.register("ledger", dataset(str(ledger)))  # DuckDB takes a [ in a path for a pattern
        return db.execute(sql).fetchall()


def check_reject_share(ledger: Path, allowed: float) -> None:
    """Raises UserError: nothing was read, or a source has too many unreadable rows."""
    found = ask(
        ledger,
        """
        SELECT source, count(*), count(*) FILTER (status = 'rejected') AS bad,
            first({'file': file, 'line': line, 'why': rule} ORDER BY file, line)
                FILTER (status = 'rejected')
        FROM ledger GROUP BY source ORDER BY source
        """,
    )
    if not found:
        raise UserError("datasets", "all sources are empty", "check their paths")
    for source, read, rejected, first in found:
        if rejected > allowed * read:
            first |= {"source": source}
            raise too_many_rejects(first, first["why"], rejected, read, allowed)


def too_many_rejects(
    first: dict, reason: str, rejected: int, read: int, allowed: float
) -> UserError:
    """The error for a source, of which `first` is the first row that was rejected."""
    return UserError(
        f"{first['file']}:{first['line']}",
        f"{rejected} of {read} rows of source '{first['source']}' are unreadable "
        f"(first: {reason}), more than the {allowed:.0%} allowed",
        "see the rejects files; name its columns, mend it, or raise max_reject_share",
    )


def funnel(ledger: Path) -> dict:
    """Rows per source: `read`, `kept`, `rejected`, `dropped`, `rules` and `reasons` with counts."""
    sources: dict[str, dict] = {}
    counts = ask(
        ledger,
        """
        SELECT source, status, if(status = 'rejected', split_part(rule, ' (column', 1), rule),
            count(*) FROM ledger GROUP BY ALL ORDER BY ALL
        """,
    )
    for source, status, rule, rows in counts:
        counted = sources.setdefault(source, new_funnel())
        counted["read"] += rows
        counted[status] += rows
        if status != "kept":
            counted["rules" if status == "dropped" else "reasons"][rule] = rows
    return {name: sorted_funnel(counts) for name, counts in sources.items()}


def new_funnel() -> dict:
    """The counts of a source before any row."""
    counts = dict.fromkeys(("read", "kept", "rejected", "dropped"), 0)
    return {**counts, "rules": Counter(), "reasons": Counter()}


def sorted_funnel(counts: dict) -> dict:
    lists = {name: dict(sorted(counts[name].items())) for name in ("rules", "reasons")}
    return {**counts, **lists}


def split_table(ledger: Path) -> dict:
    """Kept rows per split, in total and per stratum; absent strata are shown as 0."""
    sql = "SELECT split, category, count(*) FROM ledger WHERE status = 'kept' GROUP BY ALL"
    rows, strata = dict.fromkeys(SPLITS, 0), {}
    for split, category, count in sorted(ask(ledger, sql)):
        rows[split] += count
        strata.setdefault(category, dict.fromkeys(SPLITS, 0))[split] = count
    return {"rows": rows, "strata": dict(sorted(strata.items()))}


def gates(ledger: Path, settings: dict, near: int) -> list[dict]:
    """Each gate with `value`, `limit` and whether it `passed`.

    Args:
        settings: the `split` section.
        near: pairs of near duplicates that sit in two splits.
    """
    table = split_table(ledger)
    rows = table["rows"]
    total = sum(rows.values()) or 1
    smallest = min(rows.values())
    deviation = max(abs(rows[split] / total - settings[split]) for split in SPLITS)
    return [
        _gate("prompts in two splits", _shared_prompts(ledger), 0),
        _gate("near duplicates in two splits", near, 0),
        _gate("smallest split, rows", smallest, settings["min_rows"], at_least=True),
        _gate("strata absent from a split", len(_absent_strata(table["strata"], settings)), 0),
        _gate("deviation of a split's share", round(deviation, 4), settings["max_deviation"]),
    ]


def check_gates(results: list[dict]) -> None:
    """Raises UserError for the first gate that did not pass."""
    for gate in results:
        if not gate["passed"]:
            raise UserError(
                "datasets.*.split",
                f"gate failed: {gate['gate']} is {gate['value']}, limit {gate['limit']}",
                "add data, or change the split section (seed, shares, min_rows, max_deviation)",
            )


def _absent_strata(strata: dict, settings: dict) -> list[str]:
    """Strata that a split lacks, though its share of them is at least five rows."""
    return [
        name
        for name, rows in strata.items()
        for split in SPLITS
        if rows[split] == 0 and settings[split] * sum(rows.values()) >= EXPECTED
    ]


def _shared_prompts(ledger: Path) -> int:
    sql = """
        SELECT count(*) FROM (SELECT prompt_key FROM ledger WHERE status = 'kept'
        GROUP BY prompt_key HAVING min(split) != max(split))
    """
    return ask(ledger, sql)[0][0]


def _gate(name: str, value: float, limit: float, at_least: bool = False) -> dict:
    passed = value >= limit if at_least else value <= limit
    return {"gate": name, "value": value, "limit": limit, "passed": bool(passed)}
