"""Random tokenized rows, and training runs on them."""

from pathlib import Path

import numpy as np

from anneal.config.run import Run
from anneal.records import IGNORED
from anneal.tokenizing.packing import position_ids

STOP = 401


def row(length: int, learned: int, seed: int) -> dict:
    """A random row whose last `learned` tokens are supervised and end with the stop token."""
    ids = np.random.default_rng(seed).integers(3, 390, length).astype(np.int32)
    ids[-1] = STOP
    labels = np.where(np.arange(length) >= length - learned, ids, IGNORED).astype(np.int32)
    return {"input_ids": ids, "labels": labels}


def sequence(rows: list[dict]) -> dict:
    """Rows packed into one sequence, as splits hold them."""
    lengths = [len(r["input_ids"]) for r in rows]
    return {
        "input_ids": np.concatenate([r["input_ids"] for r in rows]).tolist(),
        "labels": np.concatenate([r["labels"] for r in rows]).tolist(),
        "position_ids": position_ids(lengths).tolist(),
        "length": sum(lengths),
        "ids": [str(i) for i in range(len(rows))],
    }


ROWS = [row(17, 5, 1), row(9, 8, 2), row(30, 3, 3), row(1 + 4, 2, 4)]


def write_splits(folder: Path, rows: dict[str, list[dict]] | None = None) -> Path:
    """A folder of train, eval and test; random rows unless they are given by split."""
    import pyarrow as pa

    from anneal.arrow_dataset import write_arrow_dataset
    from anneal.splitting.write import SEQUENCE

    for name, count in (("train", 24), ("eval", 3), ("test", 2)):
        made = [sequence([row(20 + i % 7, 4 + i % 3, 100 + i)]) for i in range(count)]
        batch = pa.RecordBatch.from_pylist(rows[name] if rows else made, SEQUENCE)
        write_arrow_dataset(folder / name, SEQUENCE, [batch])
    return folder


def settings(**training) -> dict:
    """Settings of a short LoRA run."""
    given = {"precision": "fp32", "max_steps": 6, "save_steps": 2, "eval_steps": 3}
    given |= {"logging_steps": 1, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
    given |= {"gradient_accumulation_steps": 1} | training
    return Run(dataset="d", model="m", training=given, tuning={"r": 4}).settings()


def train(settings, base, splits, checkpoints, folder, tracker="none") -> dict:
    from anneal.training.job import Job
    from anneal.training.train import train as train_job

    return train_job(Job(settings, base, splits, checkpoints, tracker), folder)
