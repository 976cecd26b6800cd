"""Rows a second of TRL's preparation of a prompt-completion dataset, as its SFT trainer does it.

    .venv-bench/bin/python benchmarks/peers/trl_preparation.py rows.jsonl MODEL PROCESSES ROWS

Only the preparation is timed; the model is as small as can be.
"""

import json
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="true")

import datasets
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer


class Timed(SFTTrainer):
    def _prepare_dataset(self, *arguments, **named):
        started = time.perf_counter()
        prepared = super()._prepare_dataset(*arguments, **named)
        self.seconds = time.perf_counter() - started
        return prepared


def main(file: Path, model: Path, processes: int, rows: int) -> None:
    datasets.disable_caching()
    data = datasets.Dataset.from_list([_turns(line) for line in islice(file.open(), rows)])
    tokenizer = AutoTokenizer.from_pretrained(model)
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    tiny = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size, **heads))
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            max_length=4096,
            dataset_num_proc=processes if processes > 1 else None,
            report_to="none",
            use_cpu=True,
            bf16=False,
        )
        trainer = Timed(model=tiny, args=config, train_dataset=data, processing_class=tokenizer)
    assert len(trainer.train_dataset) == len(data)
    print(json.dumps({"prepare": len(data) / trainer.seconds}))


def _turns(line: str) -> dict:
    row = json.loads(line)
    return {
        "prompt": [{"role": "user", "content": row["question"]}],
        "completion": [{"role": "assistant", "content": row["answer"]}],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
