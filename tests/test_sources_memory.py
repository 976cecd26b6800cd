"""Memory: what a reader holds does not grow with its input; `max_row_mb` bounds a row."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny import REPOSITORY

BODY = "lorem ipsum dolor sit " * 200
PROBE = """
import sys
from pathlib import Path
from reading import read

counts = read(sys.argv[1], Path(sys.argv[2]), max_row_mb=1)[2]
# not ru_maxrss, which begins with the parent's
held = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(counts["read"], int(held) // 1024)
"""


def rows(mb: int):
    """Rows that are set aside for their columns, so that the probe itself collects little."""
    return ({"n": i, "text": BODY} for i in range(mb * 1_000_000 // len(BODY)))


def write(form: str, path: Path, mb: int) -> None:
    match form:
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows(mb)))
        case "one line":
            path.write_text(json.dumps({"n": 0, "text": BODY * (mb * 1_000_000 // len(BODY))}))
        case "array":
            path.write_text(json.dumps(list(rows(mb))))
        case "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, ["n", "text"])
                writer.writeheader()
                writer.writerows(rows(mb))
        case "parquet":
            plain = {"compression": "none", "use_dictionary": False}
            pq.write_table(pa.Table.from_pylist(list(rows(mb))), path, **plain)


def peak(form: str, folder: Path, mb: int) -> int:
    """Most memory that a process reading such a file ever held, in MB."""
    path = folder / "rows"
    write(form, path, mb)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path), str(folder)],
        cwd=REPOSITORY / "tests",
        env={"PYTHONPATH": str(REPOSITORY / "scripts"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    number, most = map(int, done.stdout.split())
    assert number >= 1
    return most


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jsonl", "one line", "array", "csv", "parquet"])
def test_memory_is_flat_in_the_size_of_a_file(tmp_path, form):
    assert peak(form, tmp_path, 160) - peak(form, tmp_path, 60) < 40
