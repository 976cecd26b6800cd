"""Rows that two ledgers do not agree about: there in one alone, or with another fate.

Equal content has an equal id, so a row that only moved to another line is the same row. The n-th
row of an id in one ledger is the n-th in the other. Rejected rows were never read: they are known
by file and reason.
"""

from pathlib import Path

from anneal.duck import connect

EXAMPLES = 3
ROWS = """
    create view {name} as
    select *, row_number() over (partition by key order by file_row_number) as nth from (
        select
            coalesce(id, concat_ws(' ', source, file, rule)) as key,
            concat(file, ':', line) as place,
            concat_ws(' ', status, 'by ' || rule, 'in ' || split) as fate,
            file_row_number
        from read_parquet({ledger}, file_row_number = true)
    )
"""
CHANGES = """
    select
        a.fate as in_a,
        b.fate as in_b,
        count(*) as rows,
        list(coalesce(b.place, a.place) order by coalesce(b.place, a.place))[:{examples}] as places
    from a full join b using (key, nth)
    where a.fate is distinct from b.fate
    group by all
    order by rows desc, in_a, in_b
"""


def row_changes(a: Path, b: Path) -> list[dict]:
    """Changes by kind: fate `in_a` and `in_b` (None: the row is not there), `rows`, and `places`
    of the first of them, each as file:line (in B where the row is there)."""
    db = connect()
    for name, ledger in (("a", a), ("b", b)):
        text = str(ledger).replace("'", "''")
        db.execute(ROWS.format(name=name, ledger=f"'{text}'"))
    found = db.execute(CHANGES.format(examples=EXAMPLES))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def in_words(change: dict) -> str:
    where = ", ".join(change["places"]) + (
        ", ..." if change["rows"] > len(change["places"]) else ""
    )
    if change["in_b"] is None:
        return f"{change['rows']} only in A ({change['in_a']}): {where}"
    if change["in_a"] is None:
        return f"{change['rows']} only in B ({change['in_b']}): {where}"
    return f"{change['rows']} {change['in_a']} -> {change['in_b']}: {where}"
