"""Where things come from: manifests, `trace` and `diff`."""

import sys
from types import SimpleNamespace

import pytest

from anneal.errors import UserError
from anneal.provenance.files import read_json
from anneal.provenance.lineage import ancestry, manifest_of
from anneal.provenance.manifests import write_manifest
from anneal.provenance.tree import tree


def write_step(rule: str, output, inputs: dict, monkeypatch, sources=None, **settings) -> None:
    """An artifact with a manifest, as the command line of a rule leaves it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"{rule} {settings}")
    monkeypatch.setattr(sys, "argv", [f"scripts/{rule}.py"])
    step = SimpleNamespace(settings=settings, code=f"code of {rule}", sources=sources or {})
    write_manifest(output.with_suffix(".manifest.json"), step, inputs, [output])


@pytest.fixture
def chain(tmp_path, monkeypatch):
    """Two shards of one raw file, read, cleaned and decided about."""
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    Path("raw.jsonl").write_text("one\ntwo\n")
    data = Path("results/p/data/d")
    for number, digest in enumerate(("b0", "b1")):
        name = f"a-{number:05d}"
        piece = {"file": "raw.jsonl", "format": "jsonl", "start": 4 * number, "first_line": 1}
        piece |= {"end": 4 * number + 4, "digest": digest}
        records, clean = data / f"records/{name}.parquet", data / f"clean/{name}.parquet"
        write_step("read_shard", records, {}, monkeypatch, piece, kind="text")
        write_step("clean_shard", clean, {"records": records}, monkeypatch, kind="text")
    shards = {path.stem: path for path in sorted(data.glob("clean/*.parquet"))}
    write_step("assign_splits", data / "ledger.parquet", shards, monkeypatch, seed=3)
    return data


def test_a_manifest_says_all_that_led_to_its_artifact(chain):
    manifest = read_json(chain / "ledger.manifest.json")
    assert manifest["rule"] == "assign_splits"
    assert manifest["paths"]["a-00001"] == "results/p/data/d/clean/a-00001.parquet"
    assert manifest["settings"] == {"seed": 3}
    for name in ("inputs", "outputs", "code", "versions", "host", "finished", "seconds", "sources"):
        assert name in manifest


def test_an_ancestry_reaches_the_bytes_of_raw_files_and_shows_like_shards_as_one(chain):
    found = ancestry(manifest_of(chain / "ledger.parquet"))
    assert len(found) == 5
    assert [b for a in found.values() for b in a.breaks] == []
    lines = "\n".join(tree(found))
    assert "2 x clean_shard" in lines
    assert "seed 3" in lines
    assert "raw raw.jsonl bytes 4-8, from line 1, digest b1" in lines


def test_an_input_that_was_made_anew_breaks_the_chain(chain, monkeypatch):
    records = chain / "records/a-00000.parquet"
    write_step("read_shard", records, {}, monkeypatch, kind="chat")
    found = ancestry(chain / "ledger.manifest.json")
    broken = {name: a.breaks for name, a in found.items() if a.breaks}
    assert list(broken) == ["results/p/data/d/clean/a-00000.manifest.json"]
    assert "made from" in broken["results/p/data/d/clean/a-00000.manifest.json"][0]


def test_a_file_changed_behind_its_manifest_is_found_by_its_bytes(chain):
    (chain / "clean/a-00001.parquet").write_text("tampered")
    clean = "results/p/data/d/clean/a-00001.manifest.json"
    assert ancestry(chain / "ledger.manifest.json")[clean].breaks == []
    read = ancestry(chain / "ledger.manifest.json", read_bytes=True)
    assert "a-00001.parquet is" in read[clean].breaks[0]
    raw = read["results/p/data/d/records/a-00001.manifest.json"].breaks
    assert raw == ["raw.jsonl bytes 4-8 are other bytes now"]


def test_an_artifact_that_was_moved_is_refused(chain):
    moved = chain / "ledger.manifest.json"
    moved.rename(moved.with_name("other.manifest.json"))
    with pytest.raises(UserError, match="moved or renamed"):
        ancestry(moved.with_name("other.manifest.json"))


def test_a_path_of_the_report_names_the_artifact_it_was_taken_from():
    from anneal.reporting.origins import find, origin, value_at

    row = {"task": "kind", "tuned": {"value": 0.5}}
    run = {"dataset": "d", "model": "m", "comparison": [row], "tokens": {"train": 3}}
    report = {"runs": {"r": run}, "models": {}, "config": {"datasets": {"d": {"stream": None}}}}
    assert find(report, "kind") == ["runs.r.comparison.kind"]
    assert value_at(report, "runs.r.comparison.kind.tuned.value") == 0.5
    assert origin(report, "runs.r.comparison.kind") == "evaluation/comparisons/r.json"
    assert origin(report, "runs.r.tokens.train") == "tokens/d/m/splits/manifest.json"
    assert origin(report, "datasets.d.funnel") == "data/d/gates.json"
    with pytest.raises(UserError, match=r"not in the report \(there: dataset, model"):
        value_at(report, "runs.r.nothing")
