"""Peak memory of each data step, on growing inputs.

    python benchmarks/memory.py PROJECT SHARDS

The steps of one shard are measured on shards of 16 and 64 MB of raw rows. The steps over all shards
are measured on growing totals: the first shard is made by the real steps, the others are copies of
it with lines, ids, keys and signatures of their own, so that no copy is a duplicate of another.
As a command this file writes those copies.
"""

import os
import shutil
import sys
from pathlib import Path

from generated_project import RESULTS, Project
from measure import OURS, Line, peak, run
from rows import write_rows

SHARD_MB, SMALL_MB = 64, 16
ROW_BYTES = 600  # at least so many: enough rows for a shard
OVER_ALL = ("select_rows", "assign_splits", "write_splits")
BAR, FLAT = 1_000, 1.2


def compare(given) -> list[Line]:
    """Peaks below 1 GB, and the largest input's peak against the smallest one's."""
    peaks = _of_a_shard(given, SMALL_MB) | _of_a_shard(given, SHARD_MB)
    for mb in sorted(given.size):
        peaks |= _over_all(given, mb)
    lines = [
        Line(f"peak memory of {step}, {mb} MB", used, None, BAR, True, "MB")
        for (step, mb), used in peaks.items()
    ]
    for step in dict.fromkeys(step for step, _ in peaks):
        sizes = [mb for name, mb in peaks if name == step]
        few, many = min(sizes), max(sizes)
        what = f"growth of {step}, {few} to {many} MB"
        lines.append(Line(what, peaks[step, many], peaks[step, few], FLAT, True, "MB"))
    return lines


def _of_a_shard(given, mb: int) -> dict:
    """Of the steps of one shard; its project is kept for `_over_all`."""
    project = Project.create(_folder(given, mb), "raw.jsonl", given.model, mb)
    shutil.copyfile(_chunk(given, mb), project.folder / "raw.jsonl")
    return {
        (name, mb): used for name, used in _run(project) if name not in ("fetch_model", *OVER_ALL)
    }


def _over_all(given, mb: int) -> dict:
    """Of the steps over all shards, at a total of so many MB (in whole shards)."""
    project = Project(_folder(given, SHARD_MB))
    raw, chunk = project.folder / "raw.jsonl", _chunk(given, SHARD_MB).read_bytes()
    shards = max(1, round(mb / SHARD_MB))
    with raw.open("ab") as file:
        for _ in range(shards - raw.stat().st_size // len(chunk)):
            file.write(chunk)
    run([OURS, __file__, project.folder, shards])
    return {(name, mb): used for name, used in _run(project, OVER_ALL)}


def _run(project: Project, only: tuple[str, ...] = ()):
    """Name and peak of the steps that have to run, or of some of them, while they run."""
    for command in project.steps():
        name = Path(command[1]).stem
        if not only or name in only:
            seconds, used = peak([OURS, *command[1:]], project.folder)
            print(f"  {name}: {used:,.0f} MB, {seconds:.0f} s", file=sys.stderr, flush=True)
            yield name, used


def _folder(given, mb: int) -> Path:
    return given.folder / f"memory-{mb}"


def _chunk(given, mb: int) -> Path:
    """Generated rows of just over so many MB."""
    chunk = given.folder / f"chunk-{mb}.jsonl"
    if not chunk.is_file():
        rows = write_rows(given.folder / f"rows-for-{mb}.jsonl", mb * 1_000_000 // ROW_BYTES)
        with rows.open("rb") as file, chunk.open("wb") as out:
            while out.tell() < mb * 1e6:
                out.write(file.readline())
    return chunk


def main(folder: Path, shards: int) -> None:
    os.chdir(folder / RESULTS)
    for n in range(1, shards):
        name = f"s-{n:05}"
        if not Path(f"tokens/rows/base/ids/{name}").is_dir():
            _copy_clean(n, name)
            _copy_tokens(n, name)
            rejects = "data/rows/records/{}.rejects.parquet"
            shutil.copyfile(rejects.format("s-00000"), rejects.format(name))


def _copy_clean(n: int, name: str) -> None:
    import pyarrow.parquet as pq

    file = pq.ParquetFile("data/rows/clean/s-00000.parquet")
    with pq.ParquetWriter(f"data/rows/clean/{name}.parquet", file.schema_arrow) as writer:
        for batch in file.iter_batches(5_000):
            writer.write_batch(_moved(batch, n, file.metadata.num_rows))


def _copy_tokens(n: int, name: str) -> None:
    import pyarrow as pa

    first, folder = Path("tokens/rows/base/ids/s-00000"), Path(f"tokens/rows/base/ids/{name}")
    folder.mkdir()
    for file in first.glob("*.json"):
        shutil.copyfile(file, folder / file.name)
    arrow = next(first.glob("*.arrow"))
    with pa.ipc.open_stream(pa.memory_map(str(arrow))) as reader:
        table = reader.read_all()
        with pa.ipc.new_stream(str(folder / arrow.name), table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(_moved(batch, n, table.num_rows))


def _moved(batch, n: int, rows: int):
    """The batch as rows of copy `n`, with places, keys and signatures of their own."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["line"] = pc.add(columns["line"], n * rows)
    for key in {"id", "content_key", "prompt_key"} & set(columns):
        columns[key] = pc.binary_join_element_wise(columns[key], str(n), "-")
    if "signature" in columns:
        lists = columns["signature"]
        values = lists.values.to_numpy() ^ np.uint32(n * 2654435761 % 2**32)
        columns["signature"] = pa.ListArray.from_arrays(lists.offsets, values, mask=lists.is_null())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
