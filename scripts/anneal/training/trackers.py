"""A run's curves in the files of a tracker, below results/PROJECT/trackers/RUN.

A tracker is a view of metrics.jsonl: it is written anew whenever the run starts, so after a kill it
holds what an undisturbed run's would. Nothing here reaches the network.
"""

import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from transformers import TrainerCallback
from transformers.integrations.integration_utils import rewrite_logs

from anneal.errors import UserError
from anneal.provenance.flat import flat

LOCAL = {
    "DVC_STUDIO_OFFLINE": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_MODE": "offline",
}
ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_BUCKET_ID", "TRACKIO_WEBHOOK_URL")
Log = Callable[[dict[str, float], int], None]


class Track(TrainerCallback):
    """Passes each new line of `metrics.jsonl` on; add it after the callback that writes them.

    Args:
        tracker: one of `OPEN`.
        folder: results/PROJECT/trackers/RUN; the tracker gets a folder of its name in it.
        settings: all hyperparameters of the run.
        curves: metrics.jsonl, in a folder named after the run's fingerprint.

    Raises:
        UserError: the tracker's package is not installed.
    """

    def __init__(self, tracker: str, folder: Path, settings: dict, curves: Path):
        if importlib.util.find_spec(tracker) is None:
            do = "pip install -c envs/anneal.lock -r envs/trackers.in, or set it to dvclive"
            raise UserError("runs.*.tracker", f"package '{tracker}' is not installed", do)
        self.tracker, self.folder = tracker, folder.resolve() / tracker
        self.settings, self.curves = settings, curves
        self.opened, self.log = ExitStack(), None

    def on_log(self, args, state, control, **_):
        if not state.is_world_process_zero:
            return
        if self.log is None:
            self._open()
        for line in self.lines:
            row = json.loads(line)
            step = row.pop("step")
            self.log(rewrite_logs(row), step)

    def on_train_end(self, args, state, control, **_):
        self.opened.close()

    def _open(self) -> None:
        os.environ |= LOCAL
        for name in ELSEWHERE:
            os.environ.pop(name, None)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.lines = self.opened.enter_context(self.curves.open())
        opening = OPEN[self.tracker](self.folder, self.settings, self.curves.parent.name)
        self.log = self.opened.enter_context(opening)


@contextmanager
def _dvclive(folder: Path, settings: dict, fingerprint: str) -> Iterator[Log]:
    from dvclive import Live

    class LocalLive(Live):
        def _init_dvc(self):
            """Without it DVCLive runs `dvc init` in any Git repository around the folder."""
            self._dvc_file = "dvc.yaml"

    live = LocalLive(str(folder), save_dvc_exp=False, dvcyaml=None)
    live.log_params(settings)

    def log(values, step):
        live.step = step
        for name, value in values.items():
            live.log_metric(name, value)
        live.make_summary()

    yield log
    live.end()


@contextmanager
def _tensorboard(folder: Path, settings: dict, fingerprint: str) -> Iterator[Log]:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        writer.add_text("settings", f"```json\n{json.dumps(settings, indent=1)}\n```")

        def log(values, step):
            for name, value in values.items():
                writer.add_scalar(name, value, step)
            writer.flush()

        yield log


@contextmanager
def _mlflow(folder: Path, settings: dict, fingerprint: str) -> Iterator[Log]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    project, run = _names(folder)
    experiment = client.create_experiment(project, (folder / "artifacts").as_uri())
    run_id = client.create_run(experiment, run_name=run).info.run_id
    for name, value in flat(settings).items():
        client.log_param(run_id, name, value)

    def log(values, step):
        for name, value in values.items():
            client.log_metric(run_id, name, value, step=step)

    yield log
    client.set_terminated(run_id)


@contextmanager
def _wandb(folder: Path, settings: dict, fingerprint: str) -> Iterator[Log]:
    os.environ |= {f"WANDB_{kind}_DIR": str(folder) for kind in ("CACHE", "CONFIG", "DATA")}
    import wandb

    project, run = _names(folder)
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True)
    given = {"project": project, "name": run, "id": fingerprint, "config": settings}
    with wandb.init(dir=folder, mode="offline", settings=quiet, **given) as live:
        yield lambda values, step: live.log(values, step=step)


@contextmanager
def _trackio(folder: Path, settings: dict, fingerprint: str) -> Iterator[Log]:
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    project, run = _names(folder)
    live = trackio.init(project, name=run, config=flat(settings), embed=False)
    yield lambda values, step: live.log(values, step=step)
    live.finish()


OPEN = {
    "dvclive": _dvclive,
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
    "trackio": _trackio,
}


def _names(folder: Path) -> tuple[str, str]:
    """Project and run of results/PROJECT/trackers/RUN/TRACKER."""
    return folder.parents[2].name, folder.parent.name
