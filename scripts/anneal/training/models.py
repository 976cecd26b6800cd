"""Models and tokenizers, loaded from local folders: safetensors only, no foreign code."""

from pathlib import Path

import torch
from bitsandbytes.nn import Linear4bit
from peft import PeftConfig, PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
)

from anneal.errors import UserError
from anneal.provenance.files import read_json
from anneal.tokenizer import Tokenizer
from anneal.training import bottleneck, mixture  # noqa: F401  what they tell PEFT
from anneal.training.virtual import generate_rightly

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SAFE = {"local_files_only": True, "trust_remote_code": False}
HEADS = {"causal": AutoModelForCausalLM, "score": AutoModelForSequenceClassification}


def load_model(
    folder: str | Path,
    precision: str = "fp32",
    attention: str = "sdpa",
    head: str = "causal",
    quantized: bool = False,
    split: bool = False,
):
    """A model out of a folder; an adapter is put on the base that it names.

    Args:
        head: `causal`, a language model; `score`, one number for a sequence.
        quantized: hold the weights in 4-bit NF4, doubly quantised (Dettmers 2023, QLoRA); the
            adapter of a finished `qlora` run gets such a base unasked.
        split: each matrix over all processes, as the model's own plan says (tensor parallel).

    Raises:
        UserError: the tokenizer has tokens that the model has no embedding for.
    """
    folder = Path(folder)
    if (folder / "adapter_config.json").is_file():
        config = PeftConfig.from_pretrained(str(folder))
        quantized = quantized or trained_on_nf4(folder)
        base = load_model(config.base_model_name_or_path, precision, attention, head, quantized)
        model = put_adapter(base, folder)
        return _scoring(model, folder) if head == "score" else model
    more = {"num_labels": 1} if head == "score" else {}
    if quantized:
        more["quantization_config"] = nf4(precision)
    if split:
        more["tp_plan"] = "auto"
    model = HEADS[head].from_pretrained(
        str(folder),
        dtype=DTYPES[precision],
        attn_implementation=attention,
        use_safetensors=True,
        **more,
        **SAFE,
    )
    if quantized:
        _keep_as_quantised(model)
    check_vocabulary(folder, model)
    return _scoring(model, folder) if head == "score" else model


def _keep_as_quantised(model) -> None:
    """On CPUs with AVX512-BF16 bitsandbytes would repack weights into bf16 at the first evaluation,
    in place, so that training went on with other values, and a narrow layer failed."""
    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False


def _scoring(model, folder: Path):
    """The model with the pad token of its folder, by which it finds the token that it scores."""
    model.config.pad_token_id = load_tokenizer(folder).pad_token_id
    return model


def put_adapter(base, folder: Path):
    """A saved adapter on its base, ready to answer."""
    check_vocabulary(folder, base)
    base.config.use_cache = base.config.use_cache and not _is_mixture(folder)
    return generate_rightly(PeftModel.from_pretrained(base, str(folder)))


def model_folder(artifact: Path) -> Path:
    """Where the model of an artifact lies: in a run beside its curves; a base is its folder."""
    inside = artifact / "model"
    return inside if inside.is_dir() else artifact


def trained_on_nf4(adapter: Path) -> bool:
    """Whether the run that an adapter is the result of had its base in 4 bits."""
    manifest = adapter.parent / "manifest.json"
    return manifest.is_file() and read_json(manifest)["settings"]["tuning"]["kind"] == "qlora"


def check_vocabulary(folder: Path, model) -> None:
    """Raises UserError if the folder's tokenizer knows ids for which the model has no row."""
    if not (folder / "tokenizer.json").is_file():
        return
    tokens = max(Tokenizer(folder).backend.get_vocab().values(), default=-1) + 1
    rows = model.get_input_embeddings().num_embeddings  # its weight may be a shard
    if tokens > rows:
        what = f"the tokenizer has {tokens} tokens, the model {rows} embedding rows"
        raise UserError(str(folder), what, "put back the tokenizer that the model was saved with")


def _is_mixture(folder: Path) -> bool:
    """X-LoRA reads all hidden states of a text, so it refuses a cache."""
    return read_json(folder / "adapter_config.json")["peft_type"] == "XLORA"


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
