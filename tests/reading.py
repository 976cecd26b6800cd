"""Reads a whole source as the workflow does: planned into shards, each read by itself."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from tiny import REPOSITORY

from anneal.config.sources import Source
from anneal.sources.read import read_shard
from anneal.sources.shards import DigestCache, plan_shards


def read(path, tmp_path, kind="instruction", shard_mb=64.0, **settings):
    """(records, rejects, counts) of the files that fit a path."""
    return read_source(Source(path=str(path), **settings), tmp_path, kind, shard_mb)


def read_source(source, tmp_path, kind="instruction", shard_mb=64.0):
    """(records, rejects, counts) of a source; `counts` add up over its shards."""
    cache = DigestCache(tmp_path / "digests.json")
    records, rejects, total = [], [], {"read": 0, "records": 0, "rejected": 0, "converted": {}}
    for shard in plan_shards("s", source, kind, shard_mb, cache):
        good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
        counts = read_shard({"kind": kind, **source.reading()}, shard.as_source(), good, bad)
        records += pq.read_table(good).to_pylist()
        rejects += pq.read_table(bad).to_pylist()
        for name, number in counts.pop("converted").items():
            total["converted"][name] = total["converted"].get(name, 0) + number
        total |= {name: total[name] + number for name, number in counts.items()}
    return records, rejects, total


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def run_read_shard(source, folder, **environment: str) -> subprocess.CompletedProcess:
    """The step on a source's first shard as the workflow runs it; it writes into a folder."""
    shard = plan_shards("s", source, "instruction", 64, DigestCache(folder / "digests"))[0]
    settings = {"kind": "instruction", **source.reading()}
    step = json.dumps({"settings": settings, "code": "", "sources": shard.as_source()})
    command = [sys.executable, "scripts/read_shard.py", "--step", step]
    for name in ("records", "rejects", "manifest", "log"):
        command += [f"--{name}", str(folder / name)]
    given = os.environ | environment
    return subprocess.run(
        command, cwd=REPOSITORY, env=given, capture_output=True, text=True, check=False
    )
