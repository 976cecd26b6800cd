"""Say what became of one row: kept where, or dropped by which rule, value and kept row.

python scripts/why.py --ledger results/PROJECT/data/DATASET/ledger.parquet ID_OR_FILE:LINE
    [--shards results/PROJECT/data/DATASET/clean]
"""

from pathlib import Path

from anneal import cli
from anneal.errors import UserError
from anneal.splitting.why import cleaned_text, explain, find_rows


def main(arguments) -> None:
    if not arguments.ledger.is_file():
        raise UserError(arguments.ledger, "no such file", "run the target `data` first")
    shards = sorted(arguments.shards.glob("*.parquet")) if arguments.shards else []
    for row in find_rows(arguments.ledger, arguments.row):
        print(explain(row, arguments.ledger))
        if shards:
            print(cleaned_text(row, shards) or "(rejected before cleaning: it has no cleaned text)")


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("row", metavar="ID_OR_FILE:LINE")
    arguments.add_argument("--ledger", type=Path, required=True)
    arguments.add_argument("--shards", type=Path, help="folder of cleaned shards: shows the text")
    cli.run(main, arguments.parse_args())
