"""X-LoRA (Buehler 2024, arXiv:2402.07148): a classifier that mixes LoRA adapters token by token."""

from pathlib import Path

from peft import XLoraConfig
from peft.mapping import PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.xlora import XLoraModel

KIND = "XLORA"
CLASSIFIER = "internal_xlora_classifier"


class MixtureModel(XLoraModel):
    """PEFT's X-LoRA, its classifier saved whole.

    PEFT 0.21 calls the adapters 0, 1, ... and saves no tensor with another adapter's name between
    two dots in its own; all of the classifier's are among these, `layers.0.weight` and so on.
    """

    @classmethod
    def _get_adapter_state_dict(cls, model, config, adapter_name, state_dict, **_):
        tensors = getattr(model.base_model, CLASSIFIER).state_dict()
        return {f"base_model.{CLASSIFIER}.{name}": tensor for name, tensor in tensors.items()}


def mixture(model, adapters: tuple[Path, ...], task: str) -> XLoraConfig:
    """The configuration that mixes adapters of a model; only the classifier is trained."""
    model.config.use_cache = False
    return XLoraConfig(
        task_type=task,
        hidden_size=model.config.get_text_config().hidden_size,
        adapters={str(number): str(folder) for number, folder in enumerate(adapters)},
    )


PEFT_TYPE_TO_TUNER_MAPPING[KIND] = MixtureModel
