"""The report: complete, safe with any text, the same for the same document."""

import json
import re
import shlex
import shutil
import subprocess
from copy import deepcopy
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from anneal.config.schema import Config
from anneal.errors import UserError
from anneal.reporting.origins import find, origin
from anneal.reporting.page import render
from anneal.reporting.planned import plan_of

HOSTILE = "</svg></pre><script>alert('x')</script> \"quoted\" & <img src=https://example.org/x.png>"
SECTIONS = ["summary", "data", "tokens", "learning", "benchmarks", "cost", "provenance"]
FIGURES = ["fig-funnel-notes", "fig-lengths-tuned-1", "fig-loss-tuned-1", "fig-scores-tuned-1"]
SPLIT_ROWS = {"train": 1000, "eval": 100, "test": 114}
FIGURES += ["fig-scores-both"]
LENGTHS = {"counts": [0, 3, 5, 0], "edges": [0.0, 16.0, 32.0, 48.0, 64.0]}
FACTS = {
    **{"steps": 2, "resumed_step": 0, "train_seconds": 75.0, "tokens_per_second": 1234.5},
    **{"threads": 2, "peak_memory_mb": 2048, "logit_difference": 0.0},
    **{"weights": 2000, "trained_weights": 500},
}


class Page(HTMLParser):
    """What a browser would find: elements by id, addresses, svg per figure, tables as text."""

    def __init__(self, html: str):
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.pictures: dict[str, dict] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.figure = self.table = ""
        self.cell = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.addresses += [v for k, v in attrs if k in ("href", "src", "xlink:href", "action")]
        self.figure = values["id"] if tag == "figure" else self.figure
        self.table = values["aria-label"] if values.get("role") == "region" else self.table
        if tag == "svg":
            self.pictures[self.figure] = values
        if tag == "tr":
            self.rows.setdefault(self.table, []).append([])
        self.cell = tag in ("td", "th") or (self.cell and tag not in ("tr", "table"))
        if tag in ("td", "th"):
            self.rows[self.table][-1].append("")

    def handle_endtag(self, tag):
        self.cell = self.cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.cell:
            self.rows[self.table][-1][-1] += data.strip()


def score(value: float, stderr: float | None) -> dict:
    return {"metric": "acc", "value": value, "stderr": stderr, "questions": 20, "asked": {}}


def compared(task: str, values: tuple, verdict: str, **more) -> dict:
    return {
        **{"task": task, "forgetting": False, "verdict": verdict, "forgotten": False},
        **{"base": score(values[0], 0.1), "tuned": score(values[1], 0.1), "stderr": 0.11},
        **{"delta": values[1] - values[0], "paired": True, "warnings": []},
        **{"test": "McNemar", "p_value": 0.01, "same_as_base": False, **more},
    }


def manifest(**facts) -> dict:
    return {
        **{"key": "k", "settings": {}, "code": "c0de", "sources": {"a.jsonl": "50ce"}},
        **{"inputs": {"base": "ba5e"}, "outputs": {"model": "07"}, "facts": facts},
        **{"versions": {"python": "3.11.7"}, "host": "somewhere", "seconds": 12.5},
        "finished": "2026-01-02T03:04:05Z",
    }


def dataset() -> dict:
    rules = {"exact_duplicate": 3, "too_long": 1}
    return {
        "counted_by": None,
        "funnel": {
            "web": {
                **{"read": 20, "kept": 14, "rejected": 2, "dropped": 4},
                **{"rules": rules, "reasons": {"not JSON: <cut>": 2}},
            },
            "mail": {
                **{"read": 1200, "kept": 1200, "rejected": 0, "dropped": 0},
                **{"rules": {}, "reasons": {}},
            },
        },
        "splits": {
            "rows": SPLIT_ROWS,
            "strata": {
                HOSTILE: {"train": 1000, "eval": 100, "test": 100},
                "rare": {"train": 0, "eval": 0, "test": 14},
            },
        },
        "gates": [{"gate": "prompts in two splits", "value": 0, "limit": 0, "passed": True}],
        "converted": {},
        "clusters": [{"id": "1d", "kept": HOSTILE, "removed": 3}],
        "review": {"email": [f"write to [EMAIL_abcdefgh] {HOSTILE}"]},
        "pii": {"email": 2},
        "manifest": manifest(),
    }


def run() -> dict:
    split = {"rows": 8, "sequences": 2, "tokens": 100, "supervised": 25, "lengths": LENGTHS}
    split["learned_share"] = {"min": 0.1, "median": 0.25, "rows_at_zero": 0}
    split["set_aside"] = {"too_long": 1}
    missing = {**compared("gone", (0, 0), "not comparable"), "base": None}
    for name in ("delta", "stderr", "p_value", "paired", "test", "warnings"):
        del missing[name]
    shown = {"prompt": HOSTILE, "expected": HOSTILE, "answer": HOSTILE, "stopped": False}
    asked = {"task": "skill", "question": 3, "prompt": HOSTILE, "target": HOSTILE}
    return {
        **{"dataset": "notes", "model": "small", "method": "sft", "tuning": {}, "training": {}},
        "tokens": {name: deepcopy(split) for name in ("train", "eval", "test")},
        "masks": [
            [
                {"text": f"<|im_start|>user\n  {HOSTILE}", "learned": False},
                {"text": f"yes {HOSTILE}<|im_end|>", "learned": True},
            ]
        ],
        "curves": [
            {"step": 0, "eval_loss": 2.5, "eval_perplexity": 12.2, "eval_token_accuracy": 0.4},
            {"step": 1, "loss": 2.4, "grad_norm": 1.0, "learning_rate": 1e-4},
            {"step": 2, "loss": 2.0, "grad_norm": 0.8, "learning_rate": 2e-4},
            {"step": 2, "eval_loss": 1.9, "eval_perplexity": 6.7, "eval_token_accuracy": 0.6},
        ],
        "samples": [shown],
        "comparison": [
            compared("skill", (0.2, 0.8), "better", warnings=[HOSTILE]),
            compared("knowledge", (0.9, 0.4), "worse", forgetting=True, forgotten=True),
            {**missing, "differing": ["missing in base"], "do": "score both again"},
        ],
        "answers": [
            {**asked, "score": 1.0, "answer": HOSTILE, "base_score": 0.0, "base_answer": HOSTILE}
        ],
        "heldout": heldout(),
        "plan": plan(),
        "manifest": manifest(**FACTS),
    }


def heldout() -> dict:
    figures = {"perplexity": 2.7, "token_accuracy": 0.5, "tokens": 40}
    shown = {"prompt": HOSTILE, "expected": HOSTILE, "answer": "yes", "stopped": True}
    return {
        "base": {"loss": 3.0, "stopped": 0.0, **figures},
        "tuned": {"loss": 1.0, "stopped": 1.0, **figures},
        **{"delta": -2.0, "stderr": 0.1, "p_value": 0.0, "verdict": "better"},
        "samples": [{**shown, "base_answer": HOSTILE, "base_stopped": False}],
        **{"same_as_base": False, "warnings": []},
    }


def plan() -> dict:
    """As the target `plan` writes it, as far as it is shown."""
    return {
        "hardware": "h100",
        "device": {"price_per_hour": 3.0},
        "data": {"tokens": 100, "measured": True},
        "memory": {"total": 2**30},
        "batch": {"processes": 2},
        "work": {"steps": 2, "hours": 0.01, "cost": 0.06},
    }


def made() -> dict:
    """A model that is made of the run."""
    shared = {key: run()[key] for key in ("dataset", "model", "answers", "heldout")}
    rows = [compared("skill", (0.2, 0.7), "better")]
    return {**shared, "comparison": rows, "runs": ["tuned-1"], "manifest": manifest()}


@pytest.fixture
def document() -> dict:
    source = {"path": "notes.jsonl"}
    config = Config.model_validate(
        {
            "project": "pilot",
            "datasets": {"notes": {"sources": {"web": source, "mail": source}}},
            "models": {"small": {"path": "models/small"}},
            "runs": {"tuned-1": {"dataset": "notes", "model": "small"}},
        }
    ).model_dump()
    return {
        "project": "pilot",
        "config": config,
        "datasets": {"notes": dataset()},
        "runs": {"tuned-1": run()},
        "models": {"both": made()},
    }


def test_every_section_and_figure_is_there(document):
    page = Page(render(document))
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    for name in FIGURES:
        assert name in page.ids
        assert page.pictures[name]["role"] == "img"
        assert page.pictures[name]["aria-label"]


def test_ids_are_unique(document):
    ids = Page(render(document)).ids
    assert len(ids) == len(set(ids))


def test_hostile_text_stays_text(document):
    html = render(document)
    page = Page(html)
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert html.count("&lt;script&gt;") >= 10
    assert html.count("</svg>") == len(page.pictures)


def test_nothing_is_loaded_from_elsewhere(document):
    html = render(document)
    assert all(address.startswith("#") for address in Page(html).addresses)
    assert not re.search(r"@import|url\((?!#)", html)
    text = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/[^"]+"', "", html)
    assert not re.search(r"<[^<>]*https?://", text)


def test_equal_documents_give_equal_bytes(document):
    first = render(document)
    assert render(deepcopy(document)) == first
    assert not re.search(r"<dc:date>|matplotlib\.org", first)


def test_counts_of_every_source_add_up(document):
    rows = next(r for name, r in Page(render(document)).rows.items() if "per source" in name)
    assert [row[0] for row in rows] == ["Source", "web", "mail", "All sources"]
    for row in rows[1:]:
        read, kept, rejected, dropped, total = (int(re.sub(r"\D", "", c)) for c in row[1:])
        assert read == kept + rejected + dropped == total


def test_a_count_that_does_not_add_up_is_marked(document):
    document["datasets"]["notes"]["funnel"]["web"]["kept"] = 13
    assert "is not what was read" in render(document)


def test_absent_strata_are_shown_as_zero(document):
    rows = next(r for name, r in Page(render(document)).rows.items() if "stratum" in name)
    assert ["rare", "0", "0", "14", "14"] in rows


def test_a_forgotten_task_stands_out(document):
    html = render(document)
    assert "forgot 1\nbenchmark" in html
    assert html.count("FORGOTTEN") == 2
    document["runs"]["tuned-1"]["comparison"][1]["forgotten"] = False
    assert "FORGOTTEN" not in render(document)


def test_a_model_made_of_runs_has_rows_of_its_own(document):
    rows = next(r for name, r in Page(render(document)).rows.items() if "before and after" in name)
    at = next(n for n, row in enumerate(rows) if row[0].startswith("both"))
    assert "model made of tuned-1" in rows[at][0]
    assert rows[at + 1][:2] == ["skill", "better"]


def test_the_number_of_trained_weights_is_shown(document):
    rows = next(r for name, r in Page(render(document)).rows.items() if name == "Training runs")
    assert rows[1][3].split() == ["500", "(25.0", "%)"]


def test_learned_and_masked_text_is_told_apart(document):
    html = render(document)
    learned = re.findall(r'<span class="learned">(.*?)&lt;/svg', html, re.DOTALL)
    masked = re.findall(r'<span class="masked">(.*?)&lt;/svg', html, re.DOTALL)
    assert learned[-1].strip() == "yes"
    assert masked[-1].endswith('user<span class="newline" aria-hidden="true"></span>\n  ')


def test_a_leading_newline_of_a_text_is_kept(document):
    document["runs"]["tuned-1"]["heldout"]["samples"][0]["prompt"] = "\nfirst line is empty"
    assert "<pre>\n\nfirst line is empty</pre>" in render(document)


def test_pairs_are_shown_with_both_answers_and_their_rewards(document):
    run = document["runs"]["tuned-1"]
    run["method"] = "reward"
    run["masks"][0].append({"text": "no", "learned": False, "rejected": True})
    run["curves"] = [
        {"step": 0, "eval_loss": 0.7, "eval_reward_margin": 0.0, "eval_reward_accuracy": 0.25},
        {"step": 1, "loss": 0.6, "reward_margin": 0.2},
        {"step": 2, "eval_loss": 0.5, "eval_reward_margin": 0.5, "eval_reward_accuracy": 0.75},
    ]
    run["comparison"] = run["answers"] = []
    run["heldout"] = None
    html = render(document)
    page = Page(html)
    assert '<span class="rejected">no</span>' in html
    assert "0.500 per pair between step" in html
    assert "fig-reward-tuned-1" in page.pictures
    rows = next(r for name, r in page.rows.items() if name.startswith("Evaluations"))
    assert rows[-1] == ["2", "0.5000", "0.5000", "75.0\u202f%"]
    assert html.count("A reward model gives no answers to be scored.") == 2
    assert "Rows are packed" not in html


def test_a_project_without_runs_or_benchmarks(document):
    document["runs"]["tuned-1"]["comparison"] = []
    document["runs"]["tuned-1"]["answers"] = []
    assert "No benchmark is configured" in render(document)
    document["runs"] = document["models"] = {}
    assert [name for name in Page(render(document)).ids if name in SECTIONS] == SECTIONS


def test_a_streamed_dataset_says_so_and_shows_no_gate(document):
    assert "is streamed" not in render(document)
    streamed = {"counted_by": "tuned-1", "gates": [], "clusters": []}
    document["datasets"]["notes"] |= streamed | {"splits": {"rows": SPLIT_ROWS, "strata": {}}}
    page = render(document)
    assert "This dataset is streamed" in page
    assert "tuned-1 has read" in " ".join(page.split())
    assert not [name for name in Page(page).rows if "Gates" in name or "stratum" in name]
    assert [name for name in Page(page).ids if name in SECTIONS] == SECTIONS


def in_browser(html: str, folder: Path, *more: str) -> str:
    """What a browser makes of a page."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed")
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    switches = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *more]
    switches += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [chromium, *switches, profile, "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_browser_shows_the_figures(document, tmp_path):
    assert set(FIGURES) <= set(Page(in_browser(render(document), tmp_path)).pictures)


# What stands beyond the right edge, the paper's colour, and the least contrast of any text with
# what is behind it, as WCAG 2.2 defines it.
MEASURE = """<script>onload = () => {
const frame = document.querySelector("iframe").contentDocument, root = frame.documentElement;
const style = e => frame.defaultView.getComputedStyle(e);
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const behind = e => { const c = rgb(style(e).backgroundColor);
  return c[3] === 0 ? behind(e.parentElement) : c; };
const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => { const v = c[i] / 255;
  return sum + part * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
const contrast = e => { const ink = e.closest("svg") ? style(e).fill : style(e).color;
  const pair = [light(rgb(ink)), light(behind(e))].sort((a, b) => b - a);
  return (pair[0] + 0.05) / (pair[1] + 0.05); };
const texts = [...frame.querySelectorAll("body *")].filter(e =>
  [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
document.title = JSON.stringify({wide: root.scrollWidth - root.clientWidth,
  paper: light(rgb(style(root).backgroundColor)), least: Math.min(...texts.map(contrast))});
};</script>"""


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_phone_shows_the_page_without_scrolling_aside_and_with_enough_contrast(
    scheme, document, tmp_path
):
    document["runs"]["tuned-2"] = deepcopy(document["runs"]["tuned-1"])
    page = (
        f'{MEASURE}<iframe width="390" height="800" srcdoc="{escape(render(document))}"></iframe>'
    )
    number = ["dark", "light"].index(scheme)
    shown = in_browser(page, tmp_path, f"--blink-settings=preferredColorScheme={number}")
    found = json.loads(re.search("<title>(.*?)</title>", shown)[1])
    assert found["wide"] == 0
    assert (found["paper"] < 0.5) == (scheme == "dark")
    assert found["least"] >= 4.5


def test_a_run_that_learned_online_shows_reward_and_kl_instead_of_a_loss(document):
    run = document["runs"]["tuned-1"]
    run["method"] = "ppo"
    run["curves"] = [
        {"step": 0, "eval_reward": 0.25, "eval_kl": 0.0},
        {"step": 1, "reward": 0.3, "kl": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5},
        {"step": 2, "eval_reward": 0.75, "eval_kl": 2.0},
    ]
    page = render(document)
    assert 'id="fig-reward-tuned-1"' in page
    assert 'id="fig-kl-tuned-1"' in page
    assert 'id="fig-loss-tuned-1"' not in page
    assert "went from\n0.250 to 0.750" in page
    assert "the rewards of the\nanswers that it draws" in page
    assert "teach nothing" not in page
    rows = next(r for name, r in Page(page).rows.items() if name.startswith("Tokens per split"))
    assert not [cell for cell in rows[0] if "Learned" in cell]


def table(document: dict, beginning: str) -> list[list[str]]:
    rows = Page(render(document)).rows
    return next((r for name, r in rows.items() if name.startswith(beginning)), [])


def test_runs_stand_side_by_side_with_the_settings_that_differ_and_no_other(document):
    assert not table(document, "Only settings that differ")
    first = document["runs"]["tuned-1"]
    first["training"] = {"learning_rate": 1e-4, "seed": 17}
    second = document["runs"]["tuned-2"] = deepcopy(first)
    second["training"]["learning_rate"] = 2e-4
    second["comparison"] = second["comparison"][:1]
    second["manifest"]["facts"]["tokens_per_second"] = None
    rows = {row[0]: row[1:] for row in table(document, "Only settings that differ")}
    assert rows[""] == ["tuned-1", "tuned-2"]
    assert rows["training.learning_rate"] == ["0.0001", "0.0002"]
    assert not rows.keys() & {"training.seed", "dataset", "method"}
    assert rows["skill"] == ["0.800 ± 0.100"] * 2
    assert rows["knowledge"] == ["0.400 ± 0.100", "–"]
    assert rows["Loss on held-out rows"] == ["1.0000", "1.0000"]
    assert rows["Tokens a second"] == ["1\u202f234.5", "–"]
    assert len(set(Page(render(document)).ids)) == len(Page(render(document)).ids)


def test_what_several_runs_see_is_shown_once(document):
    document["runs"]["tuned-2"] = deepcopy(document["runs"]["tuned-1"])
    html = render(document)
    assert "<h3>tuned-1, tuned-2</h3>" in html
    assert html.count("The first training sequences") == 1
    document["runs"]["tuned-2"]["masks"][0][0]["text"] = "another template"
    assert render(document).count("The first training sequences") == 2


def test_what_was_measured_stands_beside_what_was_planned(document):
    rows = {row[0]: row[1:] for row in table(document, "Planned and measured")}
    assert rows["Optimiser steps"] == ["2", "2", "1.00 ×"]
    assert rows["Peak memory"] == ["1.0\u202fGiB", "2.0\u202fGiB", "2.00 ×"]
    assert rows["Training time"] == ["36.0\u202fs", "1\u202fmin 15\u202fs", "2.08 ×"]
    assert rows["Cost"][:2] == ["0.06", "0.12"]


def test_the_time_of_a_run_that_went_on_is_not_held_against_its_plan(document):
    document["runs"]["tuned-1"]["manifest"]["facts"]["resumed_step"] = 1
    rows = {row[0]: row[1:] for row in table(document, "Planned and measured")}
    assert rows["Training time"][::2] == ["–", "–"]


def test_a_run_without_a_plan_says_how_to_get_one(document):
    document["runs"]["tuned-1"]["plan"] = None
    assert not table(document, "Planned and measured")
    assert "has no plan of these settings" in render(document)


def test_a_plan_of_other_settings_is_not_shown(tmp_path):
    assert plan_of("a", "key", tmp_path) is None
    (tmp_path / "plan").mkdir()
    plans = [{"run": "a", "key": "key", "device": {}, **plan()}, {"run": "b", "key": "other"}]
    (tmp_path / "plan" / "plan.json").write_text(json.dumps(plans))
    assert plan_of("a", "key", tmp_path)["work"]["steps"] == 2
    assert plan_of("a", "another", tmp_path) is None
    assert plan_of("b", "key", tmp_path) is None


def test_every_command_beside_a_number_names_what_trace_finds(document):
    shown = re.findall(r"<pre>\n(python scripts.*?)</pre>", render(document), re.S)
    text = unescape("\n".join(shown))
    commands = [shlex.split(line) for line in re.findall("python scripts/trace.py .*", text)]
    assert len(commands) > 8
    for _, _, path, *project in commands:
        assert project == ["--project", "results/pilot"]
        assert find(document, path) == [path]
        assert origin(document, path).endswith((".json", ".parquet"))
    kept = shlex.quote(document["datasets"]["notes"]["clusters"][0]["kept"])
    assert f"python scripts/why.py {kept} --ledger results/pilot/data/notes/ledger" in text


def test_what_was_planned_was_made_by_no_step(document):
    with pytest.raises(UserError, match="configured or planned"):
        origin(document, "runs.tuned-1.plan.work.steps")


def test_base_and_tuned_answer_the_same_prompts_side_by_side(document):
    document["runs"]["tuned-1"]["heldout"]["warnings"] = ["was the end token learned?"]
    html = render(document)
    rows = table(document, "On held-out rows")
    assert [row[1] for row in rows[1:]] == ["3.0000", "1.0000"]
    assert [row[-1] for row in rows[1:]] == ["0.0\u202f%", "100.0\u202f%"]
    assert html.index(">base</span><span") < html.index(">tuned</span>stopped by itself")
    assert '<p class="alarm-note">was the end token learned?</p>' in html


def test_a_task_whose_questions_stood_in_the_data_says_how_many_rows_were_dropped(document):
    tasks = document["runs"]["tuned-1"]["comparison"]
    tasks[0]["rows_removed"] = 0
    tasks[1]["rows_removed"] = 3
    assert render(document).count("training rows gave its questions away") == 1


def test_an_own_prompt_has_no_expected_answer_to_show(document):
    shown = document["runs"]["tuned-1"]["heldout"]["samples"][0]
    before = render(document).count("<dt>Expected</dt>")
    shown["expected"] = ""
    assert render(document).count("<dt>Expected</dt>") == before - 1


def test_losses_that_cannot_be_compared_say_why(document):
    unlike = {"verdict": "not comparable", "differing": ["tokens"], "do": "score both again"}
    found = document["runs"]["tuned-1"]["heldout"]
    for name in ("delta", "stderr", "p_value"):
        del found[name]
    document["runs"]["tuned-1"]["heldout"] = {**found, **unlike, "samples": []}
    html = render(document)
    assert "differ in\ntokens. score both again" in html
    assert "cannot be compared: missing in base.\nscore both again" in html
