"""What each run needs, costs and should be, before anything is started.

python scripts/plan.py --config config/config.yaml --json PLAN.json --page PLAN.md
python scripts/plan.py --config config/config.yaml --check RUN ...    only: do they fit?
"""

import os
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from anneal import cli
from anneal.config.hardware import read_catalogue
from anneal.config.schema import load_config
from anneal.config.site import Site
from anneal.provenance.files import whole_file, write_json
from anneal.provenance.manifests import step_key
from anneal.workflow import ANSWERS, Steps

SITE = Path("profiles/slurm/site.yaml")


def main(arguments) -> None:
    config = load_config(arguments.config)
    os.environ["HF_HUB_OFFLINE"] = "0" if any(m.hub for m in config.models.values()) else "1"
    from anneal.planning.command import command_of
    from anneal.planning.page import page
    from anneal.planning.plan import Planner

    steps = Steps(config, main=ANSWERS not in os.environ)
    results = Path("results") / config.project
    site = load_config(SITE, Site)
    planner = Planner(config, results, steps.shards, read_catalogue(), site)
    for name in arguments.check:
        planner.check(name)
    if arguments.json:
        texts = {name: steps.text("train_run", {"run": name}) for name in config.runs}
        plans = [
            planner.plan(name)
            | {"command": command_of(config, name, text, results)}
            | {"key": step_key(cli.step(text))}
            for name, text in texts.items()
        ]
        write_json(arguments.json, plans)
        with whole_file(arguments.page) as partial:
            partial.write_text(page(config.project, plans), encoding="utf-8")


if __name__ == "__main__":
    arguments = cli.parser(__doc__)
    arguments.add_argument("--config", type=Path, default=Path("config/config.yaml"))
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--page", type=Path)
    arguments.add_argument("--check", nargs="*", default=[], help="runs that must fit")
    cli.run(main, arguments.parse_args())
