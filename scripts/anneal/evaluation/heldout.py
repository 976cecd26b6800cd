"""What a model makes of held-out rows: loss of what was to be learned, and answers to prompts.

Rows become tokens by the functions of format_shard and tokenize_shard, with the model's own
tokenizer, so base and tuned model are asked the same where their tokenizers agree.
"""

from itertools import islice
from pathlib import Path

import orjson
import torch

from anneal.formatting.format import format_rows
from anneal.formatting.styles import Formatter
from anneal.provenance.digests import digest_text
from anneal.records import IDENTITY, IGNORED
from anneal.tokenizer import Tokenizer
from anneal.tokenizing.encode import Encoder
from anneal.tokenizing.pairs import encode_pairs
from anneal.training.data import Collator
from anneal.training.loss import token_losses
from anneal.training.models import load_model, load_tokenizer
from anneal.training.verify import samples

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def measure(settings: dict, folder: Path, heldout: Path) -> dict:
    """Loss, perplexity and answers of one model on held-out rows.

    Args:
        settings: `kind`, `format`, `tokenize`, `rows`, `samples`, `batch_size`, `precision`.
        folder: a base model, a tuned model, or an adapter.
        heldout: JSONL as `write_heldout` makes it.

    Returns:
        `loss` (nats per learned token), `perplexity`, `token_accuracy`, `tokens`, all None where
        nothing is learned; `rows`, each row's sum of losses and tokens; a digest of the token
        ids (`asked`); `samples`, and the share of them that `stopped` by themselves.
    """
    tokenizer = load_tokenizer(folder)
    rows = encoded(settings, folder, heldout)
    model = load_model(folder, settings["precision"]).eval().to(DEVICE)
    learned = [row for row in rows if any(label != IGNORED for label in row["labels"])]
    collate = Collator(tokenizer.pad_token_id)
    sums = [
        found
        for start in range(0, len(learned), settings["batch_size"])
        for found in _row_sums(model, collate(learned[start : start + settings["batch_size"]]))
    ]
    shown = samples(model, tokenizer, rows, settings["samples"])
    stopped = [sample["stopped"] for sample in shown]
    return {
        **_means(sums),
        "rows": [{"loss": loss, "tokens": tokens} for loss, tokens, _ in sums],
        "asked": digest_text(orjson.dumps([row["input_ids"] for row in rows]).decode())[:12],
        "samples": shown,
        "stopped": sum(stopped) / len(stopped) if stopped else None,
    }


def encoded(settings: dict, folder: Path, heldout: Path) -> list[dict]:
    """`input_ids`, `labels` and `position_ids` of the first rows; of a pair, its chosen answer."""
    kind, limits = settings["kind"], settings["tokenize"]
    tokenizer = Tokenizer(folder)
    with heldout.open("rb") as lines:
        found = [orjson.loads(line) for line in islice(lines, settings["rows"])]
    texts = format_rows(
        Formatter(settings["format"], tokenizer), [dict.fromkeys(IDENTITY, "") | r for r in found]
    )
    long, cut = limits["max_length"], limits["truncation"]
    encoder = Encoder(tokenizer, long, cut, learns=kind != "prompts")
    rows = encode_pairs(encoder, texts) if kind == "preference" else encoder.encode(texts)
    return [_placed(row) for row in rows if not row["problem"]]


def _placed(row: dict) -> dict:
    if "chosen_ids" in row:
        prompt, chosen = list(row["prompt_ids"]), list(row["chosen_ids"])
        ids, labels = prompt + chosen, [IGNORED] * len(prompt) + chosen
    else:
        ids, labels = list(row["input_ids"]), list(row["labels"])
    ids, labels = [int(i) for i in ids], [int(i) for i in labels]
    return {"input_ids": ids, "labels": labels, "position_ids": list(range(len(ids)))}


@torch.no_grad()
def _row_sums(model, batch: dict) -> list[tuple[float, int, int]]:
    """Of each row: the sum of its losses, its learned tokens, and those that were right."""
    losses, learned, right = token_losses(model, {k: v.to(DEVICE) for k, v in batch.items()})
    sums = losses.double().sum(1), learned.sum(1), right.sum(1)
    return list(zip(*(part.tolist() for part in sums), strict=True))


def _means(sums: list[tuple[float, int, int]]) -> dict:
    tokens = sum(count for _, count, _ in sums)
    if not tokens:
        return dict.fromkeys(("loss", "perplexity", "token_accuracy")) | {"tokens": 0}
    loss = sum(found for found, _, _ in sums) / tokens
    return {
        "loss": loss,
        "perplexity": float(torch.tensor(loss).exp()),
        "token_accuracy": sum(right for _, _, right in sums) / tokens,
        "tokens": tokens,
    }
