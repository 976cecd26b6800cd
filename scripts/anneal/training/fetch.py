"""A base model as a local safetensors folder, whatever it comes from."""

import importlib
import importlib.util
import shutil
from pathlib import Path

from anneal.errors import UserError

COPIED = ("*.json", "*.jinja", "*.txt", "*.model")


def source_folder(model: dict) -> Path:
    """The local folder that holds a model's files before they are converted.

    Raises:
        UserError: the package is not installed, or the folder is missing.
    """
    if model["package"]:
        spec = importlib.util.find_spec(model["package"])
        if spec is None:
            what, do = f"package '{model['package']}' is not installed", "install it with pip"
            raise UserError("models.*.package", what, do)
        return Path(spec.origin).parent
    folder = Path(model["path"])
    if not folder.is_dir():
        raise UserError("models.*.path", f"no folder '{folder}'", "check the path")
    return folder


def fetch(
    model: dict,
    folder: Path,
    styles: list[str],
    maker: str | None = None,
    origins: list[Path] = (),
) -> dict:
    """Fill `folder` with safetensors weights, config, tokenizer and chat template.

    Args:
        model: the model's section of the configuration.
        styles: formats of the datasets that are written for it.
        maker: the module that makes a model that is not found ready.
        origins: the artifacts that such a model is made of.

    Returns:
        facts for the manifest: ids of `added_tokens`.
    """
    if maker:
        importlib.import_module(maker).make_model(model, origins, folder)
    elif model["hub"]:
        _from_hub(model, folder)
    elif model["gguf"]:
        _from_gguf(source_folder(model), model["gguf"], folder)
    else:
        _from_folder(source_folder(model), folder)
    if model["chat_template"]:
        shutil.copyfile(model["chat_template"], folder / "chat_template.jinja")
    added = []
    if model["special_tokens"] or model["add_tokens"]:
        from anneal.training.vocabulary import extend_vocabulary

        added = extend_vocabulary(folder, model["special_tokens"], model["add_tokens"])
    _check(folder, styles)
    return {"added_tokens": added}


def _from_hub(model: dict, folder: Path) -> None:
    from huggingface_hub import snapshot_download

    allowed = [*COPIED, "*.safetensors"]
    snapshot_download(
        model["hub"], revision=model["revision"], local_dir=folder, allow_patterns=allowed
    )


def _from_folder(source: Path, folder: Path) -> None:
    """Weights are linked, small files copied: the source is never written to."""
    for pattern in COPIED:
        for file in source.glob(pattern):
            if file.name != "manifest.json":
                shutil.copyfile(file, folder / file.name)
    for file in source.glob("*.safetensors"):
        (folder / file.name).symlink_to(file.resolve())


def _from_gguf(source: Path, name: str, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(
        str(source), gguf_file=name, dtype=torch.float32, local_files_only=True
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer = AutoTokenizer.from_pretrained(str(source), gguf_file=name, local_files_only=True)
    tokenizer.save_pretrained(folder)


def _check(folder: Path, styles: list[str]) -> None:
    from anneal.tokenizer import Tokenizer

    if not list(folder.glob("*.safetensors")):
        do = "convert the weights to safetensors first; pickled weights are not opened"
        raise UserError("models.*", "no .safetensors weights were found", do)
    if "chat" in styles and not Tokenizer(folder).chat_template:
        raise UserError(
            "models.*.chat_template",
            "a dataset uses style 'chat', and this model has no chat template",
            "set models.NAME.chat_template to a Jinja file, or datasets.NAME.format.style",
        )
