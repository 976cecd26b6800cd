"""Fine-tune all weights on an Alpaca JSON, without the DAG; after a kill it goes on.

python scripts/finetune.py --model_name_or_path FOLDER --data_path alpaca_data.json \\
    --output_dir OUT --bf16 True --num_train_epochs 3
torchrun --nproc-per-node 4 scripts/finetune.py ... --fsdp "full_shard auto_wrap" \\
    --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer      (or: --deepspeed zero3.json)

All options are those of Hugging Face's TrainingArguments, and the ones that Alpaca's own command
has besides. Rows that cannot be read are set aside in OUT/rejects.jsonl.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from transformers import HfArgumentParser, TrainingArguments

from anneal import cli
from anneal.config.strategy import Strategy
from anneal.errors import UserError
from anneal.provenance.digests import digest_bytes, digest_value
from anneal.training.alpaca import alpaca_rows
from anneal.training.checkpoints import KeepCheckpoints, resumable, train_from
from anneal.training.data import Collator
from anneal.training.models import load_model, load_tokenizer
from anneal.training.save import align_stop_token
from anneal.training.sft import SftTrainer
from anneal.training.stopping import StopOnSignal

NO_RESULT = ("output_dir", "logging_dir", "local_rank")


@dataclass
class ModelArguments:
    model_name_or_path: str = field(metadata={"help": "folder, or name on the Hub"})


@dataclass
class DataArguments:
    data_path: Path = field(metadata={"help": "JSON array or lines: instruction, input, output"})


@dataclass
class AlpacaArguments(TrainingArguments):
    """TrainingArguments, and what Alpaca's own command has besides or by an older name."""

    model_max_length: int = field(default=512, metadata={"help": "longest sequence, in tokens"})
    evaluation_strategy: str = field(default="no", metadata={"help": "older name; only `no`"})
    warmup_ratio: float = field(default=0.0, metadata={"help": "share of the steps"})
    fsdp_transformer_layer_cls_to_wrap: str | None = field(
        default=None, metadata={"help": "class of a layer; unset, the model says it"}
    )

    def __post_init__(self):
        if {self.evaluation_strategy, self.eval_strategy} != {"no"}:
            do = "leave it `no`, or describe the run in a configuration, which splits the rows"
            raise UserError("--eval_strategy", "no rows are set aside for evaluation", do)
        self.warmup_steps = self.warmup_steps or self.warmup_ratio
        if self.fsdp_transformer_layer_cls_to_wrap:
            wrapped = {"transformer_layer_cls_to_wrap": self.fsdp_transformer_layer_cls_to_wrap}
            self.fsdp_config = {**(self.fsdp_config or {}), **wrapped}
        self.remove_unused_columns = False
        super().__post_init__()


def main(given) -> None:
    kinds = (ModelArguments, DataArguments, AlpacaArguments)
    named, data, args = HfArgumentParser(kinds).parse_args_into_dataclasses(given.options)
    folder, output = model_folder(named.model_name_or_path), Path(args.output_dir)
    rows, rejects = alpaca_rows(data.data_path, folder, args.model_max_length)
    if args.process_index == 0:
        set_aside(rejects, len(rows), output / "rejects.jsonl")
    key = digest_value([str(folder), digest_bytes(data.data_path), what_is_learned(args)])
    args.output_dir = str(output / "checkpoints" / key[:16])
    train(args, folder, rows, output)


def model_folder(name: str) -> Path:
    if Path(name).is_dir():
        return Path(name)
    files = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]
    try:
        return Path(snapshot_download(name, allow_patterns=files))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        what = f"no folder '{name}', and the Hub gave no such model ({type(error).__name__})"
        raise UserError("--model_name_or_path", what, "check the name and the network") from None


def set_aside(rejects: list[dict], kept: int, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rejects))
    cli.log.info("%d rows, %d set aside in %s", kept, len(rejects), path)


def what_is_learned(args) -> dict:
    return {k: v for k, v in args.to_sanitized_dict().items() if k not in NO_RESULT}


def strategy_of(args) -> Strategy:
    """What the options and torchrun's environment amount to."""
    several = "ddp" if args.world_size > 1 else "single"
    kind = "fsdp" if args.fsdp else "deepspeed" if args.deepspeed else several
    version = {"fsdp_version": int(args.fsdp_config.get("version", 2))} if args.fsdp else {}
    return Strategy(kind=kind, processes=args.world_size, **version)


def train(args, folder: Path, rows, output: Path) -> None:
    tokenizer, stop = load_tokenizer(folder), StopOnSignal()
    strategy = strategy_of(args)
    keep = KeepCheckpoints(args.save_total_limit or sys.maxsize, 0, strategy)
    args.save_total_limit = None
    trainer = SftTrainer(
        model=load_model(folder),
        args=args,
        data_collator=Collator(tokenizer.pad_token_id),
        train_dataset=rows,
        callbacks=[keep, stop],
    )
    train_from(trainer, resumable(Path(args.output_dir), strategy), strategy)
    stop.check(trainer.state)
    trainer.save_model(str(output))
    if args.process_index == 0:
        align_stop_token(tokenizer, rows)
        tokenizer.save_pretrained(output)
        cli.log.info("saved in %s", output)


if __name__ == "__main__":
    cli.run(main, SimpleNamespace(log=None, options=sys.argv[1:]))
