"""The real shape of a model and what a training pass keeps of it, without one weight in memory.

The model is built by transformers, and tuned by PEFT, on PyTorch's meta device. Its forward pass
then runs on fake tensors, which have sizes and no contents: every tensor that autograd would keep
for the backward pass is counted, whatever the architecture, tuning or number format.
"""

import copy
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer

from anneal.errors import UserError
from anneal.training.tuning import tuned

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Tunings whose weights are counted by hand: PEFT wants to read embeddings or other adapters.
BY_HAND = ("prompt", "prefix", "xlora")


@dataclass(frozen=True)
class Shape:
    """Numbers of weights: all of the base, of its linear layers without the head (those that NF4
    quantises), of one block, of the input embedding, and those that are trained."""

    weights: int
    linear: int
    block: int
    embedding: int
    trained: int
    layers: int
    hidden: int
    vocabulary: int
    tied: bool


@dataclass(frozen=True)
class Saved:
    """Bytes that one sequence keeps for the backward pass: `layers` in all blocks, `block` in the
    largest one, `inputs` at the borders of blocks (all that checkpointing keeps), `rest` outside
    of blocks, without the logits; and `casts`, weights that autocast converts, once a pass."""

    layers: int
    block: int
    inputs: int
    rest: int
    casts: int


def model_config(config, name: str, results: Path):
    """transformers' configuration of a model: of its folder once it is made, else of its origin.

    Raises:
        UserError: there is none to be had without a download.
    """
    section, made = config.models[name], results / "models" / name
    if (made / "config.json").is_file():
        return AutoConfig.from_pretrained(str(made), local_files_only=True)
    if section.runs():
        return model_config(config, config.runs[section.runs()[0]].model, results)
    if section.scratch:
        values = {**section.scratch.config, "vocab_size": section.scratch.vocab_size}
        return AutoConfig.for_model(section.scratch.architecture, **values)
    return _of_origin(name, section)


def _of_origin(name: str, section):
    from anneal.training.fetch import source_folder

    place = section.hub or str(source_folder(section.model_dump()))
    more = {"gguf_file": section.gguf} if section.gguf else {}
    more |= {"revision": section.revision} if section.revision else {}
    try:
        offline = not section.hub
        return AutoConfig.from_pretrained(
            place, local_files_only=offline, trust_remote_code=False, **more
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        what = f"the model's configuration cannot be read ({first})"
        raise UserError(f"models.{name}", what, "check the path, or fetch it first") from None


def on_meta(config, precision: str, attention: str):
    """The causal model, on the meta device."""
    own = copy.deepcopy(config)  # the model notes its attention in it
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            own, dtype=DTYPES[precision], attn_implementation=attention
        )
    model.tie_weights()
    return model


def tuned_on_meta(model, tuning: dict):
    """The model with what PEFT adds, on the meta device; as it is for tunings done `BY_HAND`."""
    kind = "lora" if tuning["kind"] == "qlora" else tuning["kind"]  # the same adapter
    if kind in BY_HAND:
        model.requires_grad_(False)
        model.get_input_embeddings().requires_grad_(True)  # gradients come as far as that
        return model
    with torch.device("meta"):
        return tuned(model, {**tuning, "kind": kind})


def shape_of(model, tuning: dict) -> Shape:
    """Count a model on the meta device; it is tuned on the way."""
    head, text = model.get_output_embeddings(), model.config.get_text_config()
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    blocks = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    counts = {
        "weights": _count(model),
        "linear": sum(m.weight.numel() for m in linear),
        "block": max(map(_count, blocks), default=0),
        "embedding": model.get_input_embeddings().weight.numel(),
        "layers": text.num_hidden_layers,
        "hidden": text.hidden_size,
        "vocabulary": text.vocab_size,
        "tied": bool(text.tie_word_embeddings),
    }
    if tuning["kind"] in BY_HAND:
        return Shape(**counts, trained=_by_hand(tuning, text))
    tuned_parameters = tuned_on_meta(model, tuning).parameters()
    return Shape(**counts, trained=sum(p.numel() for p in tuned_parameters if p.requires_grad))


def _count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def _by_hand(tuning: dict, text) -> int:
    """Virtual tokens: embeddings of `prompt`, keys and values of every layer of `prefix`. The
    classifier of `xlora` is taken for one matrix from the hidden states to its adapters' scalings.
    """
    if tuning["kind"] == "xlora":
        return text.hidden_size * text.num_hidden_layers * len(tuning["adapters"])
    if tuning["kind"] == "prompt":
        return tuning["virtual_tokens"] * text.hidden_size
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return tuning["virtual_tokens"] * 2 * text.num_hidden_layers * heads * size


def saved_by(model, length: int, precision: str) -> Saved:
    """What a forward pass of one sequence of `length` tokens keeps, its attention mask included.

    Args:
        model: tuned, on the meta device; it is of no use afterwards.
    """
    length |= 1  # an odd length is the size of no weight, so casts of weights are told apart
    with FakeTensorMode():
        _made_fake(model)
        counted = _Counted(model)
        ids = torch.zeros(1, length, dtype=torch.long)
        autocast = torch.autocast("cpu", DTYPES[precision], enabled=precision != "fp32")
        with counted, autocast:
            model.train()(input_ids=ids, use_cache=False)
    return counted.result()


def _made_fake(model) -> None:
    """Fake tensors of the CPU in the place of meta ones, on which autocast does not work."""
    fakes = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None and p not in fakes:
                empty = torch.empty(p.shape, dtype=p.dtype)
                fakes[p] = torch.nn.Parameter(empty, requires_grad=p.requires_grad)
            module._parameters[name] = fakes.get(p)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


class _Counted(saved_tensors_hooks):
    """Counts the storage of each tensor that autograd keeps, by the block that made it."""

    def __init__(self, model):
        super().__init__(self._keep, lambda tensor: tensor)
        self.weights = {p.untyped_storage()._cdata for p in model.parameters()}
        trained = (p for p in model.parameters() if p.requires_grad and p.dtype == torch.float32)
        self.shapes = {tuple(sorted(p.shape)) for p in trained}
        self.bytes, self.kept, self.block = Counter(), {}, None
        self.inputs, self.casts = 0, 0
        blocks = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
        for number, block in enumerate(blocks):
            block.register_forward_pre_hook(lambda _, given, n=number: self._enter(n, given[0]))
            block.register_forward_hook(lambda *_: self._enter(None, None))

    def _enter(self, block, given) -> None:
        self.block = block
        self.inputs += 0 if given is None else given.nbytes

    def _keep(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.weights and storage._cdata not in self.kept:
            self.kept[storage._cdata] = storage
            if tuple(sorted(tensor.shape)) in self.shapes:
                self.casts += storage.nbytes()
            else:
                self.bytes[self.block] += storage.nbytes()
        return tensor

    def result(self) -> Saved:
        rest = self.bytes.pop(None, 0)
        blocks = self.bytes.values()
        return Saved(sum(blocks), max(blocks, default=0), self.inputs, rest, self.casts)
