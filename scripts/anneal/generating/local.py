"""A model that answers in this process, one request at a time."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed


class LocalModel:
    """Asks a model in a folder; takes and gives what `Endpoint` does."""

    def __init__(self, folder: Path, threads: int):
        torch.set_num_threads(threads)
        device, dtype = ("cuda", "auto") if torch.cuda.is_available() else ("cpu", torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
        ends = self.model.generation_config.eos_token_id
        self.ends = ends if isinstance(ends, list) else [ends]

    def __call__(self, body: dict) -> dict:
        """The answer's `text`, `finish`, `prompt_tokens` and `answer_tokens`."""
        set_seed(body["seed"])
        prompt = self.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=True, return_tensors="pt"
        ).to(self.model.device)
        length = prompt["input_ids"].shape[1]
        ids = self.model.generate(**prompt, **_sampling(body))[0, length:]
        return {
            "text": self.tokenizer.decode(ids, skip_special_tokens=True),
            "finish": "stop" if int(ids[-1]) in self.ends else "length",
            "prompt_tokens": length,
            "answer_tokens": len(ids),
        }


def _sampling(body: dict) -> dict:
    length = {"max_new_tokens": body["max_tokens"]}
    if not body["temperature"]:
        return {"do_sample": False, **length}
    drawn = {name: body[name] for name in ("temperature", "top_p")}
    return {"do_sample": True, "top_k": 0, **drawn, **length}
