"""Start the processes of a run as its strategy says; for one process that is the script itself.

python scripts/launch.py --strategy '{"kind": "fsdp", "processes": 4}' [--print-command] \\
    scripts/train_run.py --step JSON ...
"""

import argparse
import os
import shlex
import sys

from anneal.config.strategy import Strategy
from anneal.errors import UserError
from anneal.training.launch import check_launch, launch_command, surroundings


def main(arguments: argparse.Namespace) -> None:
    strategy, endpoint = arguments.strategy, arguments.endpoint
    script = [*arguments.script, "--strategy", strategy.model_dump_json()]
    command = launch_command(strategy, script, arguments.cpus, endpoint)
    if arguments.print_command:
        print(shlex.join(command))
        return
    check_launch(strategy, os.environ, endpoint)
    os.execvpe(command[0], command, surroundings(dict(os.environ)))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    arguments.add_argument("--strategy", type=Strategy.model_validate_json, required=True)
    arguments.add_argument("--cpus", type=int, default=1, help="CPUs of a node")
    arguments.add_argument("--print-command", action="store_true", help="show it, do not run it")
    arguments.add_argument("--endpoint", help="HOST:PORT at which nodes without Slurm meet")
    arguments.add_argument("script", nargs=argparse.REMAINDER, help="the script, its arguments")
    try:
        main(arguments.parse_args())
    except UserError as error:
        sys.exit(f"error: {error}")
