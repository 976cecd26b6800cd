"""The report as one HTML page that needs nothing but itself."""

from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from anneal.config.run import ONLINE, PAIRED
from anneal.provenance.flat import flat
from anneal.reporting import charts, commands
from anneal.reporting.beside import side_by_side
from anneal.reporting.planned import against_plan
from anneal.reporting.wording import FILTERS, number, plain, text_parts
from anneal.splitting.assign import SPLITS

FATES = ("kept", "rejected", "dropped")
SEEN = ("dataset", "model", "splits", "masks", "pairs", "online")


def render(document: dict) -> str:
    """The page of a document as `gather` makes it; equal documents give equal pages."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    config, project = document["config"], document["project"]
    runs = [_run(name, run, config, project) for name, run in document["runs"].items()]
    return environment.get_template("report.html.j2").render(
        project=project,
        config=config,
        datasets=[_dataset(name, data, project) for name, data in document["datasets"].items()],
        runs=runs,
        seen=_seen(runs),
        models=[_model(name, model, project) for name, model in document["models"].items()],
        beside=side_by_side(document["runs"]),
        cost_commands=commands.of_cost(project, document["runs"]),
    )


def _dataset(name: str, data: dict, project: str) -> dict:
    total = {key: sum(s[key] for s in data["funnel"].values()) for key in ("read", *FATES)}
    return {
        "name": name,
        "counted_by": data["counted_by"],
        "total": total,
        "sources": [_source(source, counts) for source, counts in data["funnel"].items()],
        "rules": _added(data["funnel"], "rules"),
        "reasons": _added(data["funnel"], "reasons"),
        "splits": data["splits"],
        "gates": data["gates"],
        "pii": data["pii"],
        "converted": data["converted"],
        "clusters": {found["kept"]: found["removed"] for found in data["clusters"]},
        "review": data["review"],
        "figure": _funnel_figure(name, total, data),
        "commands": commands.of_dataset(project, name, data),
        "manifest": data["manifest"],
    }


def _source(name: str, counts: dict) -> dict:
    """A row of the table of sources; `sum` adds up what became of its rows."""
    return {**counts, "name": name, "sum": sum(counts[fate] for fate in FATES)}


def _added(funnel: dict, kind: str) -> dict[str, int]:
    names = sorted({name for counts in funnel.values() for name in counts[kind]})
    return {n: sum(counts[kind].get(n, 0) for counts in funnel.values()) for n in names}


def _funnel_figure(name: str, total: dict, data: dict) -> Markup:
    label = ", ".join(f"{number(total[key])} {key}" for key in total)
    bars = list(_funnel_bars(total, _added(data["funnel"], "rules"), data["splits"]["rows"]))
    chart = charts.funnel_chart(f"fig-funnel-{name}", bars, f"Rows of {name}: {label}")
    return Markup(chart)


def _funnel_bars(total: dict, rules: dict, splits: dict) -> Iterator[dict]:
    """What is lost is taken off the right end of the bar above; the splits share what is kept."""
    end = total["read"]
    yield {"label": "read", "start": 0, "rows": end, "kind": "muted"}
    for label, rows in {"rejected": total["rejected"], **rules}.items():
        end -= rows
        yield {"label": plain(label), "start": end, "rows": rows, "kind": "lost"}
    yield {"label": "kept", "start": 0, "rows": total["kept"], "kind": "first"}
    start = 0
    for split in SPLITS:
        yield {"label": split, "start": start, "rows": splits[split], "kind": "second"}
        start += splits[split]


def _run(name: str, run: dict, config: dict, project: str) -> dict:
    tokenize = config["datasets"][run["dataset"]]["tokenize"]
    return {
        **{key: run[key] for key in ("method", "samples")},
        **_compared(name, run, commands.of_scores(project, "runs", name, run)),
        "commands": {
            "tokens": commands.of_tokens(project, name),
            "learning": commands.of_learning(project, name),
        },
        "planned": against_plan(run),
        "plan": run["plan"],
        "pairs": run["method"] in PAIRED,
        "packing": tokenize["packing"] and run["method"] not in PAIRED,
        "max_length": tokenize["max_length"],
        "splits": [_split(s, run["tokens"][s], tokenize["max_length"]) for s in SPLITS],
        "lengths": _lengths_figure(name, run["tokens"]["train"]["lengths"]),
        "masks": [[_mask(piece) for piece in sample] for sample in run["masks"]],
        "online": run["method"] in ONLINE,
        "evaluations": [row for row in run["curves"] if _judged(run["method"]) in row],
        "curves": _curve_figures(name, run["curves"], run["method"]),
        "unit": _unit(run["method"]),
        "facts": run["manifest"]["facts"],
        "manifest": run["manifest"],
        "settings": _settings(name, run, config),
    }


def _seen(runs: list[dict]) -> list[dict]:
    """Runs that see the same tokens are shown once, under the `names` of all."""
    shown: list[dict] = []
    for run in runs:
        same = next((old for old in shown if all(old[k] == run[k] for k in SEEN)), None)
        if same:
            same["names"].append(run["name"])
        else:
            shown.append({**run, "names": [run["name"]]})
    return shown


def _model(name: str, model: dict, project: str) -> dict:
    traces = commands.of_scores(project, "models", name, model)
    return {**_compared(name, model, traces), "runs": model["runs"], "manifest": model["manifest"]}


def _compared(name: str, tuned: dict, traces: list[str]) -> dict:
    """The scores of a run, or of a model made of runs, beside those of its base."""
    rows = tuned["comparison"]
    return {
        **{key: tuned[key] for key in ("dataset", "model", "answers", "heldout")},
        "name": name,
        "traces": traces,
        "rows": rows,
        "counts": _verdicts(rows),
        "groups": _groups(rows),
        "scores": _scores_figure(name, rows),
    }


def _verdicts(rows: list[dict]) -> dict[str, int]:
    """How many benchmarks got each verdict; forgotten ones are counted as such only."""
    found = ["forgotten" if row["forgotten"] else row["verdict"] for row in rows]
    return {verdict: found.count(verdict) for verdict in dict.fromkeys(sorted(found))}


def _groups(rows: list[dict]) -> list[dict]:
    titles = {False: "The task itself", True: "Forgetting: unrelated to the training data"}
    groups = [
        {"title": title, "rows": [row for row in rows if row["forgetting"] is forgetting]}
        for forgetting, title in titles.items()
    ]
    return [group for group in groups if group["rows"]]


def _scores_figure(name: str, rows: list[dict]) -> Markup:
    if not rows:
        return Markup("")
    groups = _groups(rows)
    groups = [
        {**g, "title": "forgetting" if g["rows"][0]["forgetting"] else "task"} for g in groups
    ]
    said = [_said(row) for row in rows]
    label = f"Scores of {name}, base and tuned: {'; '.join(said)}"
    return Markup(charts.scores_chart(f"fig-scores-{name}", groups, label))


def _said(row: dict) -> str:
    values = [f"{row[side]['value']:.3f}" if row[side] else "none" for side in ("base", "tuned")]
    return f"{row['task']} {values[0]} and {values[1]}"


def _split(name: str, facts: dict, max_length: int) -> dict:
    room = facts["sequences"] * max_length
    return {
        **{key: facts[key] for key in ("rows", "sequences", "tokens", "supervised", "set_aside")},
        "name": name,
        "share": facts["learned_share"],
        "learned": facts["supervised"] / facts["tokens"] if facts["tokens"] else 0.0,
        "filled": facts["tokens"] / room if room else 0.0,
    }


def _lengths_figure(name: str, lengths: dict) -> Markup:
    label = f"Histogram of the lengths of {number(sum(lengths['counts']))} training rows in tokens"
    chart = charts.lengths_chart(f"fig-lengths-{name}", lengths["counts"], lengths["edges"], label)
    return Markup(chart)


def _mask(piece: dict) -> dict:
    kind = "learned" if piece["learned"] else "rejected" if "rejected" in piece else "masked"
    return {"kind": kind, "parts": text_parts(piece["text"])}


def _unit(method: str) -> str:
    """What the loss of a method is measured in."""
    return "per pair" if method in PAIRED else "nats per token"


def _judged(method: str) -> str:
    """The figure of an evaluation by which a method is judged."""
    return "eval_reward" if method in ONLINE else "eval_loss"


def _curve_figures(name: str, rows: list[dict], method: str) -> dict[str, Markup]:
    """Figures by kind: loss and reward margin, or reward and KL of methods that learn online."""
    wanted = _online_curves(rows) if method in ONLINE else _offline_curves(rows, method)
    wanted["rate"] = ("Learning rate", [_line(rows, "learning_rate", "muted")], True)
    wanted["gradient"] = ("Gradient norm", [_line(rows, "grad_norm", "muted")], True)
    last = max([row["step"] for row in rows] + [1])
    return {
        key: Markup(
            charts.curves_chart(f"fig-{key}-{name}", title, lines, last, _ends(lines), narrow)
        )
        for key, (title, lines, narrow) in wanted.items()
    }


def _offline_curves(rows: list[dict], method: str) -> dict[str, tuple]:
    loss = [_line(rows, "loss", "second"), _line(rows, "eval_loss", "first")]
    margin = [_line(rows, "reward_margin", "second"), _line(rows, "eval_reward_margin", "first")]
    curves = {"loss": (f"Loss ({_unit(method)})", loss, False)}
    if any("eval_reward_margin" in row for row in rows):
        curves["reward"] = ("Reward margin", margin, False)
    return curves


def _online_curves(rows: list[dict]) -> dict[str, tuple]:
    reward = [_line(rows, "reward", "second"), _line(rows, "eval_reward", "first")]
    kl = [_line(rows, key, "second") for key in ("kl", "kl_per_token")]
    kl = [line for line in kl if line["points"]]
    return {"reward": ("Reward", reward, False), "kl": ("KL from the start (nats)", kl, False)}


def _line(rows: list[dict], key: str, kind: str) -> dict:
    points = [(row["step"], row[key]) for row in rows if key in row]
    return {"points": points, "kind": kind, "key": key}


def _ends(lines: list[dict]) -> str:
    """What a curve says in words: where it starts and where it ends."""
    return "; ".join(
        f"{plain(line['key'])} from {line['points'][0][1]:.4g} at step {line['points'][0][0]} "
        f"to {line['points'][-1][1]:.4g} at step {line['points'][-1][0]}"
        for line in lines
        if line["points"]
    )


def _settings(name: str, run: dict, config: dict) -> dict[str, list[tuple]]:
    parts = {
        "Run": {key: run[key] for key in ("method", "tuning", "training")},
        "Model": config["models"][run["model"]],
        "Dataset": config["datasets"][run["dataset"]],
        "Benchmarks": config["evaluate"],
    }
    return {title: list(flat(part).items()) for title, part in parts.items()}
