"""The catalogue of devices in config/hardware.yaml, which runs name in `hardware`."""

import difflib
from pathlib import Path

from pydantic import Field, ValidationError

from anneal.config.base import Name, Section
from anneal.config.explain import explain
from anneal.config.yaml_text import read_yaml
from anneal.errors import UserError

CATALOGUE = Path("config/hardware.yaml")
CPU = "cpu"


class Device(Section):
    """One kind of device."""

    title: str = Field(description="What it is.")
    memory_gb: float = Field(gt=0, description="Memory, in 10^9 bytes.")
    bf16_tflops: float = Field(gt=0, description="Dense bf16 arithmetic, 10^12 operations/s.")
    price_per_hour: float = Field(0, ge=0, description="What an hour of one costs you.")


class Catalogue(Section):
    """All devices by name."""

    devices: dict[Name, Device]


def read_catalogue(path: Path = CATALOGUE) -> dict[str, Device]:
    """Devices by name.

    Raises:
        UserError: with file and line, where the file is missing or not as it must be.
    """
    if not path.is_file():
        raise UserError(str(path), "no such file", "copy it from the repository")
    values, lines = read_yaml(path)
    lines = {("devices", *at): line for at, line in lines.items()}
    try:
        return Catalogue.model_validate({"devices": values}).devices
    except ValidationError as error:
        where, what, do = explain(error, Catalogue, lines)
        raise UserError(f"{path}{where}", what.removeprefix("devices."), do) from None


def check_hardware(named: dict[str, str]) -> None:
    """Raises ValueError with the nearest name where a run names an unknown device.

    Args:
        named: device of each run. A project that trains on CPU alone needs no catalogue.
    """
    if set(named.values()) <= {CPU}:
        return
    known = list(read_catalogue())
    for run, device in named.items():
        if device not in known:
            near = difflib.get_close_matches(device.lower(), known, n=1, cutoff=0.3)
            hint = f"did you mean '{near[0]}'?" if near else f"there: {', '.join(known)}"
            what = f"runs.{run}.hardware: no '{device}' in {CATALOGUE}"
            raise ValueError(f"{what}; {hint}")
