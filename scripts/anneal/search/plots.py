"""Plots of a search as SVG files; equal figures give equal bytes."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from anneal.provenance.files import whole_file

STYLE = {"svg.hashsalt": "anneal", "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3}


def plot_range_test(found: dict, path: Path) -> None:
    """Loss over the learning rate, with the suggestions."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure("Learning rate", "Training loss")
        axes.plot(found["rates"], found["losses"], ".", alpha=0.4, label="loss")
        axes.plot(found["rates"], found["smoothed"], label="smoothed")
        for name, style in (("steepest", "--"), ("tenth_of_lowest", ":")):
            if found[name]:
                label = f"{name.replace('_', ' ')}: {found[name]:.1e}"
                axes.axvline(found[name], linestyle=style, color="black", label=label)
        axes.set_xscale("log")
        axes.legend()
        _save(figure, path)


def plot_history(trials: list[dict], path: Path) -> None:
    """Last loss of each trial in order, pruned ones hollow, and the best so far."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure("Trial", "Evaluation loss")
        for state, fill in (("complete", "C0"), ("pruned", "none")):
            shown = [t for t in trials if t["state"] == state and t["loss"] is not None]
            numbers, losses = [t["trial"] for t in shown], [t["loss"] for t in shown]
            axes.scatter(numbers, losses, edgecolor="C0", facecolor=fill, label=state)
        best, line = float("inf"), []
        for trial in trials:
            best = min(best, trial["loss"] if trial["state"] == "complete" else best)
            line.append(best)
        axes.plot([t["trial"] for t in trials], line, color="C1", label="best so far")
        axes.legend()
        _save(figure, path)


def _figure(across: str, up: str):
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=across, ylabel=up)
    return figure, axes


def _save(figure, path: Path) -> None:
    with whole_file(path) as partial:
        figure.savefig(partial, format="svg", metadata={"Date": None})
