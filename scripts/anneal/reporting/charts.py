"""Charts of the report as inline SVG whose colours and fonts follow the page."""

import functools
import html
import io
import re
from collections.abc import Callable

WIDE, NARROW = 480, 300
ROUND = [1, 2, 5, 10]
# markers: matplotlib wants hexadecimal colours, the page puts its variables in their place
COLOURS = {
    "ink": "#0a0a01",
    "muted": "#0a0a02",
    "rule": "#0a0a03",
    "first": "#0a0a04",
    "second": "#0a0a05",
    "lost": "#0a0a06",
}
# the largest size the page sets texts in (on a phone), so that there is room for them
TEXT_SIZE = 13
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "anneal",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": TEXT_SIZE,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["rule"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.labelsize": TEXT_SIZE,
    "axes.titlecolor": COLOURS["muted"],
    "axes.titlesize": TEXT_SIZE,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": [-7, 9],
    "grid.color": COLOURS["rule"],
    "grid.linewidth": 0.8,
    "xtick.labelsize": TEXT_SIZE,
    "ytick.labelsize": TEXT_SIZE,
    "xtick.color": COLOURS["rule"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "ytick.left": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
}


def _styled(draw: Callable[..., str]) -> Callable[..., str]:
    """Draw in the page's style; matplotlib is loaded only here, for it is slow to load."""

    @functools.wraps(draw)
    def styled(*arguments, **named) -> str:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **named)

    return styled


@_styled
def funnel_chart(name: str, bars: list[dict], label: str) -> str:
    """Horizontal bars of rows.

    Args:
        name: id of the figure.
        bars: `label`, `start`, `rows` and `kind` (a colour) of each bar, from the top.
        label: what the chart says, for people who do not see it.
    """
    draw = _Drawing(24 + 20 * len(bars))
    axes, top = draw.axes, max([bar["start"] + bar["rows"] for bar in bars] + [1])
    for at, bar in enumerate(bars):
        colour = COLOURS[bar["kind"]]
        axes.barh(at, bar["rows"], 0.62, left=bar["start"], color=colour, linewidth=0)
        end = bar["start"] + bar["rows"] + top * 0.015
        axes.text(end, at, f"{bar['rows']:,}", va="center", color=COLOURS["ink"])
    axes.set_yticks(range(len(bars)), [bar["label"] for bar in bars])
    axes.set_xticks([])
    axes.set(xlim=(0, top * 1.14), ylim=(len(bars) - 0.4, -0.6))
    axes.spines["bottom"].set_visible(False)
    return draw.svg(name, label)


@_styled
def lengths_chart(name: str, counts: list[int], edges: list[float], label: str) -> str:
    """Histogram of tokens per row, up to the longest row."""
    last = max((i for i, count in enumerate(counts) if count), default=len(counts) - 1) + 1
    draw = _Drawing(200)
    widths = [edges[i + 1] - edges[i] for i in range(last)]
    draw.axes.bar(
        edges[:last],
        counts[:last],
        [width * 0.94 for width in widths],
        align="edge",
        color=COLOURS["first"],
        linewidth=0,
    )
    draw.axes.set(title="Rows", xlabel="Tokens in a row", xlim=(0, edges[last]))
    draw.grid(whole="y")
    return draw.svg(name, label)


@_styled
def curves_chart(
    name: str, title: str, lines: list[dict], last: int, label: str, narrow: bool
) -> str:
    """Curves over the steps 0 to `last`; each line has `points` and `kind` (a colour).

    A narrow chart begins at 0 and has room for one line.
    """
    draw = _Drawing(170, NARROW) if narrow else _Drawing(240)
    for line in lines:
        steps, values = zip(*line["points"], strict=True) if line["points"] else ((), ())
        mark = "o" if len(steps) <= 40 else ""
        draw.axes.plot(steps, values, marker=mark, color=COLOURS[line["kind"]], clip_on=False)
    draw.axes.set(title=title, xlabel="Optimiser step", xlim=(-0.02 * last, 1.02 * last))
    if narrow:
        draw.axes.set_ylim(bottom=0)
    draw.grid(whole="x")
    return draw.svg(name, label)


@_styled
def scores_chart(name: str, groups: list[dict], label: str) -> str:
    """Base and tuned scores with bars of 2 standard errors.

    Args:
        groups: `title` and `rows` (task, base, tuned) of each group of tasks.
    """
    lines = [line for group in groups for line in (group["title"], *group["rows"])]
    draw = _Drawing(44 + 32 * len(lines))
    names = [line if isinstance(line, str) else line["task"] for line in lines]
    for at, line in enumerate(lines):
        if isinstance(line, dict):
            _score(draw.axes, at - 0.14, line["base"], "second")
            _score(draw.axes, at + 0.14, line["tuned"], "first")
    draw.axes.set_yticks(range(len(lines)), names)
    for text, line in zip(draw.axes.get_yticklabels(), lines, strict=True):
        text.set_color(COLOURS["muted" if isinstance(line, str) else "ink"])
    draw.axes.set(ylim=(len(lines) - 0.4, -0.6), xlabel="Score")
    _score_limits(draw.axes)
    draw.axes.grid(axis="x")
    return draw.svg(name, label)


def _score(axes, at: float, score: dict | None, kind: str) -> None:
    if score:
        error = 2 * (score["stderr"] or 0.0)
        axes.errorbar(
            score["value"], at, xerr=error, fmt="o", color=COLOURS[kind], capsize=3, markersize=5.5
        )


def _score_limits(axes) -> None:
    """Shares are shown on the whole scale from 0 to 1; other metrics on their own."""
    low, high = axes.get_xlim()
    if low >= -0.5 and high <= 1.5:
        axes.set_xlim(min(low, -0.02), max(high, 1.02))


class _Drawing:
    """One figure with one pair of axes; sizes are in the SVG's units."""

    def __init__(self, height: int, width: int = WIDE):
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        self.axes = self.figure.add_subplot()

    def grid(self, whole: str) -> None:
        """Horizontal lines; the axis `whole` counts things and has ticks at whole numbers only."""
        from matplotlib.ticker import MaxNLocator

        self.axes.grid(axis="y")
        self.axes.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND, integer=whole == "y"))
        self.axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND, integer=whole == "x"))

    def svg(self, name: str, label: str) -> str:
        stream = io.StringIO()
        self.figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        return _inline(stream.getvalue(), name, label)


def _inline(text: str, name: str, label: str) -> str:
    """A matplotlib SVG as a part of a page: own ids, no prolog, no metadata, the page's colours."""
    head, _, body = text[text.index("<svg") :].partition(">")
    box = re.search(r'viewBox="[^"]+"', head)[0]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    body = re.sub(r'(?<=\bid=")|(?<=href="#)|(?<=url\(#)', f"{html.escape(name)}-", body)
    for variable, marker in COLOURS.items():
        body = body.replace(f": {marker}", f": var(--{variable})")
    attributes = f'{box} role="img" aria-label="{html.escape(label)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{body.strip()}'
