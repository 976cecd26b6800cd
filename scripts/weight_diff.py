"""Make the difference between a tuned model and its base, or recover the tuned model from it.

python scripts/weight_diff.py make --base DIR --tuned DIR --diff DIR
python scripts/weight_diff.py recover --base DIR --diff DIR --output DIR
"""

from pathlib import Path

from anneal import cli
from anneal.training.weight_diff import in_words, make, recover


def main(arguments) -> None:
    if arguments.command == "make":
        print(in_words(make(arguments.base, arguments.tuned, arguments.diff)))
    else:
        files = recover(arguments.base, arguments.diff, arguments.output)
        print(f"{files} files in {arguments.output}, each with the bytes of the tuned model")


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    commands = arguments.add_subparsers(dest="command", required=True)
    for command, folders in {"make": ("tuned", "diff"), "recover": ("diff", "output")}.items():
        inner = commands.add_parser(command)
        for name in ("base", *folders):
            inner.add_argument(f"--{name}", type=Path, required=True, metavar="DIR")
    cli.run(main, arguments.parse_args())
