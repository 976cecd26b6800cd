"""Models and tokenizers, loaded from local folders: safetensors only, no foreign code."""

from pathlib import Path

import torch
from peft import PeftConfig, PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SAFE = {"local_files_only": True, "trust_remote_code": False}
HEADS = {"causal": AutoModelForCausalLM, "score": AutoModelForSequenceClassification}


def load_model(
    folder: str | Path,
    precision: str = "fp32",
    attention: str = "sdpa",
    head: str = "causal",
    quantized: bool = False,
):
    """A model out of a folder; an adapter is put on the base that it names.

    Args:
        head: `causal`, a language model; `score`, one number for a sequence.
        quantized: hold the weights in 4-bit NF4, doubly quantised (Dettmers 2023, QLoRA).
    """
    folder = Path(folder)
    if (folder / "adapter_config.json").is_file():
        base = PeftConfig.from_pretrained(str(folder)).base_model_name_or_path
        base = load_model(base, precision, attention, head, quantized)
        model = PeftModel.from_pretrained(base, str(folder))
        return _scoring(model, folder) if head == "score" else model
    more = {"num_labels": 1} if head == "score" else {}
    if quantized:
        more["quantization_config"] = nf4(precision)
    model = HEADS[head].from_pretrained(
        str(folder),
        dtype=DTYPES[precision],
        attn_implementation=attention,
        use_safetensors=True,
        **more,
        **SAFE,
    )
    return _scoring(model, folder) if head == "score" else model


def _scoring(model, folder: Path):
    """The model with the pad token of its folder, by which it finds the token that it scores."""
    model.config.pad_token_id = load_tokenizer(folder).pad_token_id
    return model


def nf4(precision: str) -> BitsAndBytesConfig:
    """The quantisation of QLoRA; its arithmetic has the run's precision."""
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=DTYPES[precision],
    )


def load_tokenizer(folder: str | Path):
    """The tokenizer of a model folder; a missing pad token is taken from eos."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), **SAFE)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
