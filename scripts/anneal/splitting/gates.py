"""Gates: figures about a split that must hold before anything is trained on it."""

from collections import Counter

import pyarrow as pa

from anneal.errors import UserError
from anneal.splitting.assign import SPLITS

EXPECTED = 5


def funnel(ledger: pa.Table) -> dict:
    """Rows per source: `read`, `kept`, `rejected`, `dropped`, `rules` and `reasons` with counts."""
    sources: dict[str, dict] = {}
    for row in ledger.select(["source", "status", "rule"]).to_pylist():
        counts = sources.setdefault(row["source"], new_funnel())
        counts["read"] += 1
        counts[row["status"]] += 1
        if row["status"] == "dropped":
            counts["rules"][row["rule"]] += 1
        if row["status"] == "rejected":
            counts["reasons"][row["rule"].partition(" (column")[0]] += 1
    return {name: sorted_funnel(counts) for name, counts in sources.items()}


def new_funnel() -> dict:
    """The counts of a source before any row."""
    counts = dict.fromkeys(("read", "kept", "rejected", "dropped"), 0)
    return {**counts, "rules": Counter(), "reasons": Counter()}


def sorted_funnel(counts: dict) -> dict:
    lists = {name: dict(sorted(counts[name].items())) for name in ("rules", "reasons")}
    return {**counts, **lists}


def split_table(ledger: pa.Table) -> dict:
    """Kept rows per split, in total and per stratum; absent strata are shown as 0."""
    kept = [row for row in ledger.to_pylist() if row["status"] == "kept"]
    strata = sorted({row["category"] for row in kept})
    counts = Counter((row["split"], row["category"]) for row in kept)
    return {
        "rows": {split: sum(row["split"] == split for row in kept) for split in SPLITS},
        "strata": {s: {split: counts[split, s] for split in SPLITS} for s in strata},
    }


def gates(ledger: pa.Table, settings: dict, near: list[dict]) -> list[dict]:
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
        _gate("near duplicates in two splits", len(near), 0),
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


def _shared_prompts(ledger: pa.Table) -> int:
    sides: dict[str, set[str]] = {}
    for row in ledger.to_pylist():
        if row["status"] == "kept":
            sides.setdefault(row["prompt_key"], set()).add(row["split"])
    return sum(len(found) > 1 for found in sides.values())


def _gate(name: str, value: float, limit: float, at_least: bool = False) -> dict:
    passed = value >= limit if at_least else value <= limit
    return {"gate": name, "value": value, "limit": limit, "passed": bool(passed)}
