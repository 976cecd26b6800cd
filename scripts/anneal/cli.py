"""What every command line of the workflow shares: arguments, its log file, and how errors look."""

import argparse
import itertools
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from anneal.errors import Interrupted, UserError
from anneal.lock import RUN, hold_step

log = logging.getLogger("anneal")

# They warn at each start that there is no GPU; what a run needs of the device is checked by us.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
logging.getLogger("DeepSpeed").addFilter(lambda record: record.levelno >= logging.ERROR)


def parser(description: str) -> argparse.ArgumentParser:
    """An argument parser that already knows `--step` and `--log`."""
    arguments = argparse.ArgumentParser(description=description.splitlines()[0])
    arguments.add_argument(
        "--step",
        type=step,
        default=step("{}"),
        help='JSON: {"settings": ..., "code": digest, "sources": digests}',
    )
    arguments.add_argument("--log", type=Path, help="log file of this step")
    return arguments


class Shards(argparse.Action):
    """Paths, then perhaps those of all shards: `DIR/{shard}.parquet SOURCE:COUNT ...`.

    Linux takes 128 kB in one argument, and a shell line is one.
    """

    def __call__(self, parser, namespace, values, option_string=None):
        texts = [str(value) for value in values]
        plain = list(itertools.takewhile(lambda text: "{shard}" not in text, texts))
        pattern, *counts = texts[len(plain) :] or [""]
        pairs = [text.rpartition(":") for text in counts]
        names = [f"{source}-{n:05d}" for source, _, count in pairs for n in range(int(count))]
        paths = [*plain, *(pattern.replace("{shard}", name) for name in names)]
        setattr(namespace, self.dest, [Path(path) for path in paths])


def step(text: str) -> SimpleNamespace:
    """Resolved settings, code digest and source digests of one step, from their JSON form."""
    given = json.loads(text)
    return SimpleNamespace(
        settings=given.get("settings", {}),
        code=given.get("code", ""),
        sources=given.get("sources", {}),
    )


def run(main: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Run `main`; a `UserError` becomes one line and exit code 1, anything else goes to the log."""
    _log_to(arguments.log)
    _stop_again(arguments.log)
    _spare_pandas()
    warnings.simplefilter("ignore", FutureWarning)  # of libraries among themselves
    try:
        with hold_step():
            main(arguments)
    except UserError as error:
        _never_again(arguments.log, error)
        _stop(f"error: {error}")
    except Interrupted as stop:
        log.warning("%s", stop)
        sys.exit(stop.code)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit("interrupted; run the same command again to go on")
    except Exception as error:
        where = f"; the traceback is in {arguments.log}" if arguments.log else ""
        if arguments.log:
            log.debug("%s", traceback.format_exc())
        else:
            traceback.print_exc()
        _stop(f"error: {Path(sys.argv[0]).name}: {type(error).__name__}: {error}{where}")


def _never_again(path: Path | None, error: UserError) -> None:
    """Leave word, beside the log, that this run need not try this step again."""
    if path and RUN in os.environ:
        path.with_suffix(".error").write_text(f"{os.environ[RUN]}\n{error}")


def _stop_again(path: Path | None) -> None:
    """A run tries again what was killed; what a user's error ended would only end so again."""
    if path and path.with_suffix(".error").is_file():
        run, error = path.with_suffix(".error").read_text().split("\n", 1)
        if run == os.environ.get(RUN):
            _stop(f"error: {error}")


def _spare_pandas() -> None:
    """Have pyarrow look for pandas while it is hidden: it would load it in 0.3 s and not use it.

    What really needs pandas, such as `to_pandas`, looks again.
    """
    if "pyarrow" in sys.modules and "pandas" not in sys.modules:
        hidden = SimpleNamespace(find_spec=_no_pandas)
        sys.meta_path.insert(0, hidden)
        try:
            sys.modules["pyarrow"].array([0])
        finally:
            sys.meta_path.remove(hidden)


def _no_pandas(name: str, *_) -> None:
    if name == "pandas":
        raise ModuleNotFoundError(name=name)


def _stop(line: str) -> None:
    log.debug("%s", line)
    sys.exit(line)


def _log_to(path: Path | None) -> None:
    log.setLevel(logging.DEBUG)
    shown = logging.StreamHandler()
    shown.setLevel(logging.WARNING if os.environ.get("RANK", "0") == "0" else logging.ERROR)
    shown.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    log.addHandler(shown)
    if path is None:
        return
    if rank := int(os.environ.get("RANK", "0")):
        path = path.with_suffix(f".rank{rank}.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = logging.FileHandler(path, mode="w", encoding="utf-8")
    written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(written)
