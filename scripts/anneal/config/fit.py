"""Do runs, their tuning and the models made of them go together? Raises ValueError where not."""

from anneal.config.tuning import LORA, MERGEABLE, VIRTUAL


def check_tuning(config, name: str) -> None:
    """The tuning of one run, against its dataset, its model and the runs that it mixes."""
    run = config.runs[name]
    kind, model = run.tuning.kind, config.models[run.model]
    if kind in VIRTUAL and config.datasets[run.dataset].tokenize.packing:
        what = f"tuning '{kind}' puts virtual tokens before a sequence, not before each packed row"
        raise ValueError(f"runs.{name}: {what}; set datasets.{run.dataset}.tokenize.packing: false")
    if model.add_tokens and kind not in (*LORA, "full"):
        kinds = ", ".join((*LORA, "full"))
        what = f"tuning '{kind}' would leave the tokens of models.{run.model}.add_tokens untrained"
        raise ValueError(f"runs.{name}: {what}; use one of {kinds}")
    _plain_lora(config, f"runs.{name}.tuning.adapters", {*run.tuning.adapters}, run.model)


def check_model(config, name: str) -> None:
    """A model that is made of runs, or of a dataset."""
    model = config.models[name]
    if model.run and config.runs[model.run].tuning.kind not in MERGEABLE:
        kind = config.runs[model.run].tuning.kind
        raise ValueError(f"models.{name}: the result of tuning '{kind}' cannot be merged")
    if model.scratch and config.datasets[model.scratch.dataset].kind != "text":
        raise ValueError(f"models.{name}.scratch: the dataset must be of kind 'text'")
    if model.combine:
        base = config.runs[model.runs()[0]].model
        _plain_lora(config, f"models.{name}.combine", {*model.runs()}, base)


def _plain_lora(config, where: str, runs: set[str], base: str) -> None:
    """Adapters that go together: low-rank changes of one base, and nothing else."""
    kinds = {config.runs[run].tuning.kind for run in runs}
    if len(kinds) > 1 or not kinds <= {"lora", "qlora"}:
        raise ValueError(f"{where}: the runs must all be tuned by lora, or all by qlora")
    for run in sorted(runs):
        if config.runs[run].model != base:
            raise ValueError(f"{where}: run '{run}' does not start from model '{base}'")
        if config.runs[run].tuning.train_embeddings or config.models[base].add_tokens:
            raise ValueError(f"{where}: run '{run}' trains embeddings too")
