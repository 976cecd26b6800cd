"""The run's own curves: one JSON line a logged step, the same after a kill as without one."""

import json
import math
from pathlib import Path

from transformers import TrainerCallback

from anneal.cli import log
from anneal.errors import UserError
from anneal.training.processes import is_first

NOT_CURVES = ("runtime", "per_second", "preparation_time", "epoch", "flos")


class WriteCurves(TrainerCallback):
    """Appends each log entry to `metrics.jsonl`; entries after the resumed step are forgotten."""

    def __init__(self, path: Path, resumed_step: int):
        self.path = path
        if not is_first():
            return
        before = read_curves(path) if resumed_step else []
        kept = [row for row in before if row["step"] <= resumed_step]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))

    def on_log(self, args, state, control, logs=None, **_):
        values = {k: v for k, v in (logs or {}).items() if not any(n in k for n in NOT_CURVES)}
        values = {k: v for k, v in values.items() if k != "train_loss"}
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                do = "lower the learning rate, or look for damaged rows"
                raise UserError("runs.*.training", f"{name} is {value} at {state.global_step}", do)
        if values and is_first():
            log.info("step %d: %s", state.global_step, values)
            with self.path.open("a") as stream:
                stream.write(json.dumps({"step": state.global_step, **values}) + "\n")


def read_curves(path: Path) -> list[dict]:
    """Rows of a metrics.jsonl; a last line cut off by a kill is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
