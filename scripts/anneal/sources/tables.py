"""Parquet and Arrow tables: pieces by row group, types against the declared schema, rows."""

import glob
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from anneal.errors import UserError
from anneal.records import FIELDS, MESSAGES
from anneal.sources.lines import Row

# What reading damaged bytes may raise; names and sizes in them are as damaged as the rest.
DAMAGE = (pa.ArrowException, OSError, ValueError, MemoryError)
BUFFER = 1 << 20
# A dictionary page, where there is one, stands before the data; 0 is no place of one.
SPANS = """
    with columns as (
        select row_group_id, total_compressed_size as size, least(
            coalesce(nullif(dictionary_page_offset, 0), data_page_offset), data_page_offset
        ) as start from parquet_metadata(?)
    )
    select greatest(coalesce(min(start), 0), 0), coalesce(max(start + size), 0)
    from columns group by row_group_id order by row_group_id
"""
BATCH_BYTES = 8e6
BATCH_ROWS = 2_000


def table_rows(piece: dict) -> Iterator[Row]:
    """Rows of the row groups [start, end) of a Parquet file, or of a whole Arrow file.

    Raises:
        UserError: the file is damaged.
    """
    line = piece["first_line"]
    batches = _row_groups if piece["format"] == "parquet" else _arrow_batches
    try:
        for batch in batches(piece):
            for value in _values(batch):
                yield line, None, value
                line += 1
    except DAMAGE as error:
        raise _damaged(piece["file"], error) from None


def parquet_pieces(file: str, shard_mb: float) -> tuple[list[tuple], pa.Schema]:
    """Runs of row groups of about `shard_mb` each, and the file's schema.

    Returns:
        pieces: (first row group, the one behind the last, 1-based first row, (start, end) of the
            bytes of their columns). What is appended to a file changes the last piece alone.
    """
    try:
        with pq.ParquetFile(file) as table:
            meta, schema = table.metadata, table.schema_arrow
            rows = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    except DAMAGE as error:
        raise _damaged(file, error) from None
    spans = _spans(file, len(rows))
    pieces, first, row = [], 0, 1
    for end in _runs([stop - start for start, stop in spans], shard_mb * 1e6):
        run = spans[first:end] or [(0, 0)]
        span = min(start for start, _ in run), max(stop for _, stop in run)
        pieces.append((first, end, row, span))
        first, row = end, row + sum(rows[first:end])
    return pieces, schema


def _spans(file: str, groups: int) -> list[tuple[int, int]]:
    """Where the columns of each row group begin and end; the whole file where none can tell.

    DuckDB is asked, because pyarrow ends the process at the columns of some damaged files.
    """
    import duckdb

    try:
        with duckdb.connect() as database:
            found = database.execute(SPANS, [glob.escape(file)]).fetchall()
    except duckdb.Error:
        found = []
    return found if len(found) == groups else [(0, Path(file).stat().st_size)] * groups


def _runs(sizes: list[int], most: float) -> list[int]:
    """Where runs of a size of `most` or a little more end; there is at least one."""
    ends, run = [], 0
    for i, size in enumerate(sizes, 1):
        run += size
        if run >= most:
            ends.append(i)
            run = 0
    return ends if ends and ends[-1] == len(sizes) else [*ends, len(sizes)]


def arrow_schema(file: str) -> pa.Schema:
    try:
        with pa.memory_map(file) as source, _opened(source) as reader:
            return reader.schema
    except DAMAGE as error:
        raise _damaged(file, error) from None


def check_columns(file: str, schema: pa.Schema, kind: str, columns: dict[str, str]) -> None:
    """Raises UserError: a column cannot become the field that the kind declares."""
    try:
        problem = _misfit(schema, kind, columns)
    except UnicodeDecodeError as error:  # a name that is no text
        raise _damaged(file, error) from None
    if problem:
        raise UserError(file, *problem)


def saved_files(folder: Path, split: str) -> list[str]:
    """Arrow files of a folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote.

    Raises:
        UserError: there is no such split.
    """
    parts = folder / "dataset_dict.json"
    if parts.is_file():
        known = json.loads(parts.read_text("utf-8"))["splits"]
        if split not in known:
            there = ", ".join(known)
            raise UserError(str(folder), f"has no split '{split}'", f"name one of: {there}")
        folder = folder / split
    state = json.loads((folder / "state.json").read_text("utf-8"))
    return [str(folder / Path(part["filename"]).name) for part in state["_data_files"]]


def _row_groups(piece: dict) -> Iterator[pa.RecordBatch]:
    # otherwise each column of a row group is loaded whole
    how = {"pre_buffer": False, "buffer_size": BUFFER, "page_checksum_verification": True}
    with pq.ParquetFile(piece["file"], **how) as table:
        for i in range(piece["start"], piece["end"]):
            group = table.metadata.row_group(i)
            yield from table.iter_batches(
                _batch_rows(group.num_rows, group.total_byte_size), row_groups=[i]
            )


def _arrow_batches(piece: dict) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(piece["file"]) as source, _opened(source) as reader:
        many = (
            (reader.get_batch(i) for i in range(reader.num_record_batches))
            if hasattr(reader, "get_batch")
            else reader
        )
        for batch in many:
            batch.validate(full=True)  # mapped memory is trusted otherwise
            step = _batch_rows(batch.num_rows, batch.nbytes)
            yield from (batch.slice(at, step) for at in range(0, batch.num_rows, step))


def _opened(source: pa.MemoryMappedFile):
    magic = source.read(6)
    source.seek(0)
    return pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)


def _batch_rows(rows: int, size: int) -> int:
    return int(min(BATCH_ROWS, max(1, BATCH_BYTES * rows / max(size, 1))))


def _values(batch: pa.RecordBatch) -> Iterator[dict | str]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        yield from (_value(batch.slice(i, 1)) for i in range(batch.num_rows))


def _value(row: pa.RecordBatch) -> dict | str:
    try:
        return row.to_pylist()[0]
    except UnicodeDecodeError:
        return "not UTF-8"


def _misfit(schema: pa.Schema, kind: str, columns: dict[str, str]) -> tuple[str, str] | None:
    """What is wrong with a column and what to do, if anything is."""
    names = schema.names
    if twice := next((name for name in names if names.count(name) > 1), None):
        return f"two columns are called '{twice}'", "rename one"
    for name, declared in FIELDS[kind].items():
        column = columns.get(name, name)
        if column in names and not _fits(schema.field(column).type, name, declared):
            wanted = "text" if declared == pa.string() else "a list of messages"
            what = f"column '{column}' is {schema.field(column).type} where '{kind}' has {wanted}"
            return what, "cast it, or name another one in 'columns'"
    return None


def _fits(given: pa.DataType, name: str, declared: pa.DataType) -> bool:
    if types.is_null(given):
        return True
    if declared == MESSAGES:
        return _is_messages(given) or _is_text(given)
    return _is_text(given) or (name == "tools" and types.is_list(given))


def _is_text(given: pa.DataType) -> bool:
    if types.is_dictionary(given):
        return _is_text(given.value_type)
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary)
    tests += (types.is_large_binary, types.is_integer, types.is_floating, types.is_decimal)
    return any(test(given) for test in tests)


def _is_messages(given: pa.DataType) -> bool:
    if types.is_list(given) or types.is_large_list(given):
        given = given.value_type
    names = {f.name for f in given.fields} if types.is_struct(given) else set()
    return bool(names & {"role", "from"})


def _damaged(file: str, error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    what = f"truncated or damaged table: {reason}"
    return UserError(file, what, "write it again")
