"""Scores, filters, languages, contamination, and the answer to "what became of this row?"."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cleaning import broken_rule, cleaned

from anneal.cleaning.contamination import Index, contaminated_rows
from anneal.cleaning.filters import RULES, filtered_rows, limits
from anneal.cleaning.language import language, script
from anneal.cleaning.quality import scores
from anneal.cleaning.questions import test_files as files_of
from anneal.config.clean import Decontaminate, Filter
from anneal.errors import UserError
from anneal.records import COUNTS, SHARES

PROSE = "The ferry left the harbour and turned to the north with a load of salt and timber."


def test_scores_of_a_known_text():
    text = "- one two\n- one two\nEnds here...\n\nThe # of {braces}"
    found = scores(text, "")
    assert (found["word_count"], found["curly_braces"]) == (12, 2)
    assert found["bullet_line_share"] == 0.5
    assert found["ellipsis_line_share"] == found["ended_line_share"] == 0.25
    assert found["short_line_share"] == 1.0
    assert found["symbol_word_ratio"] == pytest.approx(2 / 12)
    assert found["alphabetic_word_share"] == pytest.approx(9 / 12)
    assert found["stop_words"] == 2
    assert found["repeated_line_share"] == pytest.approx(18 / 47)
    assert found["duplicate_line_share"] == pytest.approx(9 / len(text))


def test_repetition_counts_the_characters_of_words_in_repeated_runs():
    text = "a bb ccc dd e " * 2 + "a bb ccc dd e"
    found = scores(text, "")
    assert found["top_2_gram_share"] == pytest.approx(3 * 6 / 41)
    assert found["duplicate_5_gram_share"] == pytest.approx(18 / 41)
    assert scores("Yes.", "Yes.")["top_2_gram_share"] == 0


@given(st.lists(st.sampled_from(["a", "b", "cc", "d.", "\n", "\n\n", "{", "…"])).map(" ".join))
def test_every_score_has_a_column_and_every_share_is_one(text):
    found = scores(text, text)
    assert set(found) == {*COUNTS, *SHARES}
    ratios = {"mean_word_length", "symbol_word_ratio", "newline_word_ratio"}
    assert all(0 <= found[name] <= 1 for name in set(SHARES) - ratios)
    grams = [found[f"duplicate_{n}_gram_share"] for n in range(5, 11)]
    assert grams == sorted(grams, reverse=True) or text.count(" ") > 4


def test_no_published_rule_is_on_by_default_and_each_can_be_chosen():
    row = {**scores("Yes.", "Yes."), "language": None, "language_score": None}
    assert broken_rule(row, Filter().model_dump()) is None
    chosen = Filter(rules=["gopher_quality"]).model_dump()
    assert broken_rule(row, chosen) == ("word_count_low", 1.0)
    both = limits(Filter(rules=["gopher_repetition", "fineweb"]).model_dump())
    assert both["duplicate_line_share"] == {"min": None, "max": 0.1}
    own = Filter(rules=["gopher_quality"], limits={"word_count": {"min": 1}}).model_dump()
    assert broken_rule(row, own) == ("stop_words_low", 0.0)


def test_rules_name_stored_scores():
    assert {name for rule in RULES.values() for name in rule} <= {*COUNTS, *SHARES}


def test_a_limit_that_keeps_nothing_is_refused():
    with pytest.raises(ValueError, match="no row would be kept"):
        Filter(limits={"chars": {"min": 5, "max": 4}})
    with pytest.raises(ValueError, match="min, max or both"):
        Filter(limits={"chars": {}})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Ahoy", "latin"),
        ("Привет, Bob", "cyrillic"),
        ("日本の海", "kana"),
        ("大海", "han"),
        ("42!", None),
    ],
)
def test_the_script_is_that_of_most_letters(text, wanted):
    assert script(text) == wanted


def test_rows_in_another_language_go_and_short_ones_stay(tmp_path):
    german = "Das Schiff fährt heute Abend mit einer Ladung Salz nach Norden."
    shard = cleaned(tmp_path, [PROSE, german, "Ja.", "OK"], language=True)
    dropped = filtered_rows([shard], Filter(languages=["en"], min_language_score=0.9).model_dump())
    assert [(d["line"], d["rule"]) for d in dropped.to_pylist()] == [(2, "language_de")]
    assert language(german)[0] == "de"


def test_an_unknown_language_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="unknown language 'xx'"):
        filtered_rows([cleaned(tmp_path, [PROSE])], Filter(languages=["xx"]).model_dump())


LONG = (
    "A keeper walks down ninety steps to the boat and back up again three times every day, how "
    "many steps does the keeper walk in one week?"
)
SHORT = "Which metal turns green when damp sea air reaches it?"


@pytest.fixture
def tests(tmp_path):
    rows = [
        {"q": LONG, "a": "3780"},
        {"q": SHORT, "choices": ["Copper", "Zinc"]},
        {"q": "Red or blue?"},
    ]
    path = tmp_path / "quiz.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return {"quiz": [str(path)]}


def test_rows_that_give_away_questions_are_dropped_with_task_and_span(tmp_path, tests):
    texts = [
        "Solve it: " + LONG.upper() + " 3780",
        "Q: which metal turns green, when damp sea-air reaches it? Copper.",
        "A keeper walks down ninety steps to the boat and back up, then rests.",
        "Red or blue? Red. " + PROSE,
    ]
    shard = cleaned(tmp_path, texts)
    settings = Decontaminate().model_dump()
    drops, matches = contaminated_rows([shard], np.zeros(4, bool), tests, settings)
    matches = matches.to_pylist()
    assert [(d["line"], d["rule"], d["value"]) for d in drops.to_pylist()] == [
        (1, "contaminated", 1.0),
        (2, "contaminated", 1.0),
    ]
    assert [(m["task"], m["question"]) for m in matches] == [("quiz", 1), ("quiz", 2)]
    assert matches[1]["span"] == "which metal turns green when damp sea air reaches it"
    skip = np.arange(4) == 0
    assert contaminated_rows([shard], skip, tests, settings)[0] == drops.slice(1)


def test_thirteen_words_in_a_row_are_enough_and_twelve_are_not(tests):
    words = LONG.split()
    index = Index(tests, 13, 0.8)
    assert index.match("So " + " ".join(words[2:15]) + " or not")["coverage"] == pytest.approx(
        13 / 27, abs=1e-4
    )
    assert index.match("So " + " ".join(words[2:14]) + " or not") is None


def test_a_phrase_of_many_questions_is_no_sign(tmp_path):
    stem = (
        "Read the following passage with care and choose the one best answer from the list below: "
    )
    rows = [{"q": f"{stem} number {n} of {n * n}"} for n in range(30)]
    path = tmp_path / "exam.jsonl"
    path.write_text(json.dumps(rows))
    assert Index({"exam": [str(path)]}, 13, 0.8).match(stem + PROSE) is None


def test_only_local_json_test_data_of_a_task_is_read(tmp_path):
    head = "task: t\ntest_split: test\nprocess_docs: !function utils.process\ndataset_kwargs:\n"
    cases = {
        "own": "  data_files: {test: HELDOUT}\n",
        "local": "  data_files: {train: a.jsonl, test: [b.jsonl, c.parquet]}\n",
        "web": "  data_files: {test: https://x.example/a.jsonl}\n",
    }
    for name, text in cases.items():
        (tmp_path / f"{name}.yaml").write_text(head + text)
    found = {name: files_of(tmp_path, name) for name in (*cases, "hellaswag")}
    assert found == {"own": [], "local": ["b.jsonl"], "web": [], "hellaswag": []}


def test_broken_test_data_and_task_files_name_the_file(tmp_path):
    (tmp_path / "bad.jsonl").write_text("{no json\n")
    with pytest.raises(UserError, match=r"bad\.jsonl"):
        Index({"t": [str(tmp_path / "bad.jsonl")]}, 13, 0.8)
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    with pytest.raises(UserError, match=r"bad\.yaml:"):
        files_of(tmp_path, "bad")


def test_why_tells_what_became_of_a_row(tmp_path):
    import pyarrow as pa

    from anneal.splitting.ledger import LEDGER
    from anneal.splitting.why import cleaned_text, explain, find_rows

    shard = cleaned(tmp_path, [PROSE, PROSE, "mail ann@example.com"])
    base = {"source": "s", "file": "data/c.jsonl"}
    rows = [
        {**base, "id": "a", "line": 1, "status": "kept", "split": "train"},
        {
            **{**base, "id": "a", "line": 2, "status": "dropped"},
            **{"rule": "exact_duplicate", "value": 1.0, "kept_id": "a"},
        },
        {**base, "id": None, "line": 3, "status": "rejected", "rule": "no JSON"},
    ]
    ledger = tmp_path / "ledger.parquet"
    pq.write_table(pa.Table.from_pylist(rows, LEDGER), ledger)
    first, second = find_rows(ledger, "a")
    assert explain(first, ledger).endswith("kept, in the split train")
    assert explain(second, ledger).endswith(
        "dropped by exact_duplicate with the value 1, as a copy of data/c.jsonl:1"
    )
    assert "rejected by no JSON" in explain(find_rows(ledger, "c.jsonl:3")[0], ledger)
    assert "[EMAIL_" in cleaned_text({**base, "file": "c.jsonl", "line": 3}, [shard])
    with pytest.raises(UserError, match=r"no row 'c\.jsonl:9'"):
        find_rows(ledger, "c.jsonl:9")


CONFIG = """\
project: p
datasets:
  d: {{sources: {{s: {{path: raw.jsonl}}}}, filter: {{languages: {languages}}}}}
models: {{m: {{path: m}}}}
evaluate: {{include: tasks, tasks: {{quiz: {{}}, own: {{}}}}}}
"""


@pytest.fixture
def steps(tmp_path, tests, monkeypatch):
    """What the steps of a small project are asked to do, with the given languages."""
    from anneal.config.schema import load_config
    from anneal.workflow import Steps

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    for name, file in (("quiz", "quiz.jsonl"), ("own", "HELDOUT")):
        text = f"test_split: test\ndataset_kwargs: {{data_files: {{test: {file}}}}}\n"
        (tmp_path / "tasks" / f"{name}.yaml").write_text(text)
    (tmp_path / "raw.jsonl").write_text('{"instruction": "a", "output": "b"}\n')

    def made(languages="[]"):
        (tmp_path / "config.yaml").write_text(CONFIG.format(languages=languages))
        return Steps(load_config("config.yaml"))

    return made


def test_a_change_of_the_test_data_is_a_change_of_the_selection(tmp_path, steps):
    first = steps().step("select_rows", {"dataset": "d"})
    assert first["settings"]["tests"] == {"quiz": ["quiz.jsonl"]}
    (tmp_path / "quiz.jsonl").write_text(json.dumps({"q": "Another question of six words?"}))
    second = steps().step("select_rows", {"dataset": "d"})
    assert first["sources"].keys() == second["sources"].keys() == {"quiz.jsonl"}
    assert first["sources"] != second["sources"]


def test_the_first_language_asks_for_scores_and_the_next_does_not_ask_again(steps):
    wildcards = {"dataset": "d", "shard": "s-00000"}
    none, one, two = (
        steps(languages).step("clean_shard", wildcards)["settings"]["clean"]["language"]
        for languages in ("[]", "[en]", "[en, de]")
    )
    assert (none, one, two) == (False, True, True)


def test_selection_counts_rules_names_clusters_and_warns(tmp_path, tests, caplog):
    import select_rows
    from anneal.cli import parser, step
    from anneal.config.clean import Deduplicate

    shard = cleaned(tmp_path, [PROSE, PROSE, PROSE + " ", "", SHORT])
    sections = {"filter": Filter(), "decontaminate": Decontaminate(), "deduplicate": Deduplicate()}
    settings = {name: section.model_dump() for name, section in sections.items()}
    arguments = parser("select").parse_args([])
    arguments.step = step(json.dumps({"settings": {**settings, "tests": tests}}))
    arguments.records, arguments.manifest = [shard], tmp_path / "m.json"
    arguments.output, arguments.contaminated = tmp_path / "d.parquet", tmp_path / "x.parquet"
    select_rows.main(arguments)
    facts = json.loads(arguments.manifest.read_text())["facts"]
    assert facts["rules"] == {"contaminated": 1, "exact_duplicate": 2, "response_too_short": 1}
    assert facts["clusters"] == [{"kept": "c.jsonl:1", "id": "id0", "removed": 2}]
    assert facts["duplicate_share"] == {"s": 0.4}
    assert pq.read_table(arguments.output).num_rows == sum(facts["rules"].values())
    assert "duplicates" not in caplog.text
    copies = pa.table({"source": ["s"] * 3})
    select_rows.duplicate_shares([shard], copies, 0.5)
    assert "60% of source 's' are duplicates" in caplog.text
