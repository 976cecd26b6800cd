"""What the tests of online methods share: prompts, settings, and a reward that pays for a token."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from anneal.arrow_dataset import write_arrow_dataset
from anneal.config.run import Run
from anneal.records import IGNORED
from anneal.splitting.write import SEQUENCE

LENGTH = 8


def prompt(seed: int) -> dict:
    """A bare prompt of 3 to 8 tokens."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, 300, rng.integers(3, 9)).tolist()
    return {
        "input_ids": ids,
        "labels": [IGNORED] * len(ids),
        "position_ids": list(range(len(ids))),
        "length": len(ids),
        "ids": [str(seed)],
    }


def write_prompts(folder: Path) -> Path:
    for number, (name, count) in enumerate((("train", 40), ("eval", 6), ("test", 2))):
        rows = [prompt(100 * number + i) for i in range(count)]
        batch = pa.RecordBatch.from_pylist(rows, SEQUENCE)
        write_arrow_dataset(folder / name, SEQUENCE, [batch])
    return folder


def stopping_model(tiny_model: Path, folder: Path) -> Path:
    """The tiny model; its generation settings know the tokenizer's end token, and more."""
    from anneal.training.models import load_tokenizer

    shutil.copytree(tiny_model, folder)
    stop = load_tokenizer(folder).eos_token_id
    settings = {"eos_token_id": stop, "do_sample": True, "top_k": 3, "repetition_penalty": 5.0}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def settings(method: str, online: dict, tuning: dict | None = None, **training) -> dict:
    given = {"precision": "fp32", "max_steps": 6, "save_steps": 2, "eval_steps": 3}
    given |= {"logging_steps": 1, "per_device_train_batch_size": 8, "learning_rate": 3e-3}
    given |= {"gradient_accumulation_steps": 1, "lr_scheduler_type": "constant"}
    given |= {"warmup_ratio": 0, "weight_decay": 0} | training
    online = {"reward_pattern": ".*a.*", "max_new_tokens": LENGTH} | online
    tuning = {"kind": "full"} if tuning is None else tuning
    return Run(
        dataset="d", model="m", method=method, training=given, online=online, tuning=tuning
    ).settings()


def whole_and_resumed(given: dict, base: Path, prompts: Path, folder: Path):
    """Train, and again from what a kill behind a broken checkpoint 4 leaves.

    Returns:
        facts of the resumed run, and the folders of the undisturbed and of the resumed one.
    """
    from anneal.training.checkpoints import COMPLETE
    from anneal.training.job import Job
    from anneal.training.train import train

    whole, kept = folder / "whole", folder / "killed"
    train(Job(given, base, prompts, whole / "checkpoints"), whole / "run")
    shutil.copytree(whole / "checkpoints", kept / "checkpoints")
    shutil.rmtree(kept / "checkpoints" / "checkpoint-6")
    (kept / "checkpoints" / "checkpoint-4" / COMPLETE).unlink()
    facts = train(Job(given, base, prompts, kept / "checkpoints"), kept / "run")
    return facts, whole / "run", kept / "run"


def even_share(prompts: list[list[int]], answers: list[list[int]]) -> list[float]:
    """A toy reward: the share of an answer's tokens whose id is even. Half of all ids are."""
    return [sum(token % 2 == 0 for token in answer) / len(answer) for answer in answers]


def best_share(kl: float) -> float:
    """The highest share of even tokens that LENGTH tokens reach at this KL, from a half.

    Per token, log 2 - H(share) nats; solved by halving.
    """
    low, high = 0.5, 1 - 1e-9
    for _ in range(60):
        share = (low + high) / 2
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        low, high = (share, high) if LENGTH * (np.log(2) - entropy) < kl else (low, share)
    return low
