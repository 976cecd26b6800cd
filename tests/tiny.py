"""A tiny random model with a real tokenizer and chat template."""

import json
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CORPUS = [
    "Name a fruit. Pear. Name a river. Zinc. What is the capital of France? Paris.",
    "Write the category of this note: a taxi from the airport, travel, food, office, phone.",
    "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\nGood day, 12 34.50<|im_end|>",
]


def make_tokenizer(folder: Path, template: str | None = CHATML, **special: str) -> Path:
    """A byte-level BPE tokenizer trained on the spot, saved in the Hugging Face layout."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", **special}
    special.setdefault("pad_token", special["eos_token"])
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    control = dict.fromkeys(["<|im_start|>", "<|im_end|>", *special.values()])
    backend.add_special_tokens([AddedToken(token, special=True) for token in control])
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


def make_model(folder: Path, tied: bool = True):
    """A random two-layer Llama of about 50,000 weights, saved beside the tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=400,
        eos_token_id=401,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return model
