"""Base models and tokenizers, loaded from local folders: safetensors only, no foreign code."""

from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SAFE = {"local_files_only": True, "trust_remote_code": False}


def load_model(folder: str | Path, precision: str = "fp32", attention: str = "sdpa"):
    """A causal language model out of a folder; an adapter is put on the base that it names."""
    folder = Path(folder)
    if (folder / "adapter_config.json").is_file():
        config = LoraConfig.from_pretrained(str(folder))
        base = load_model(config.base_model_name_or_path, precision, attention)
        return PeftModel.from_pretrained(base, str(folder))
    return AutoModelForCausalLM.from_pretrained(
        str(folder),
        dtype=DTYPES[precision],
        attn_implementation=attention,
        use_safetensors=True,
        **SAFE,
    )


def load_tokenizer(folder: str | Path):
    """The tokenizer of a model folder; a missing pad token is taken from eos."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), **SAFE)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def tuned(model, tuning: dict):
    """The model with the weights that the tuning trains, and those alone, requiring gradients."""
    if tuning["kind"] == "full":
        return model
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=tuning["r"],
        lora_alpha=tuning["alpha"],
        lora_dropout=tuning["dropout"],
        target_modules=tuning["target_modules"],
    )
    return get_peft_model(model, config)
