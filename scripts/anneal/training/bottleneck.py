"""Bottleneck adapters (Houlsby 2019, arXiv:1902.00751) as a tuning method of PEFT.

One adapter a block, on the output of the block's MLP and before the residual sum, which is where
Pfeiffer 2020 (arXiv:2005.00247) puts it: h + up(gelu(down(h))). `up` starts at zero, so at step 0
the model is its base. Importing this module is what lets PEFT save and load such an adapter.
"""

from dataclasses import dataclass, field

import torch
from peft.config import PeftConfig
from peft.mapping import (
    PEFT_TYPE_TO_CONFIG_MAPPING,
    PEFT_TYPE_TO_PREFIX_MAPPING,
    PEFT_TYPE_TO_TUNER_MAPPING,
)
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from torch import nn

KIND = "BOTTLENECK"
MLP = r".*\.(mlp|feed_forward|ffn|fc2)"


@dataclass
class BottleneckConfig(PeftConfig):
    """Width of the adapters, and the modules whose output they change."""

    bottleneck: int = 64
    target_modules: list[str] | str = MLP
    exclude_modules: list[str] | str | None = None
    modules_to_save: list[str] | None = field(default=None)

    def __post_init__(self):
        super().__post_init__()
        self.peft_type = KIND
        if isinstance(self.target_modules, list):
            self.target_modules = set(self.target_modules)


class BottleneckLayer(nn.Module, BaseTunerLayer):
    """A module with an adapter on its output, (..., width) to (..., width)."""

    adapter_layer_names = ("bottleneck_down", "bottleneck_up")

    def __init__(self, base_layer: nn.Module):
        super().__init__()
        self.base_layer = base_layer
        self.bottleneck_down = nn.ModuleDict()
        self.bottleneck_up = nn.ModuleDict()
        self.merged_adapters = []

    def update_layer(self, name: str, width: int, config: BottleneckConfig) -> None:
        near = next(self.base_layer.parameters())
        kind = near.dtype if near.is_floating_point() else torch.float32
        place = {"device": near.device, "dtype": kind}
        self.bottleneck_down[name] = nn.Linear(width, config.bottleneck, **place)
        self.bottleneck_up[name] = nn.Linear(config.bottleneck, width, **place)
        nn.init.zeros_(self.bottleneck_up[name].weight)
        nn.init.zeros_(self.bottleneck_up[name].bias)
        self.set_adapter(name, inference_mode=config.inference_mode)

    def forward(self, *inputs, **named) -> torch.Tensor:
        result = self.base_layer(*inputs, **named)
        for name in () if self.disable_adapters else self.active_adapters:
            down, up = self.bottleneck_down[name], self.bottleneck_up[name]
            change = up(nn.functional.gelu(down(result.to(down.weight.dtype))))
            result = result + change.to(result.dtype)
        return result


class BottleneckModel(BaseTuner):
    """Puts a `BottleneckLayer` around each target module."""

    prefix = "bottleneck_"
    tuner_layer_cls = BottleneckLayer

    def _create_and_replace(self, config, adapter_name, target, target_name, parent, **_):
        layer = target if isinstance(target, BottleneckLayer) else BottleneckLayer(target)
        layer.update_layer(adapter_name, self.model.config.get_text_config().hidden_size, config)
        if layer is not target:
            setattr(parent, target_name, layer)


# `register_peft_method` takes only names of PEFT's own enumeration; this is what it does with them.
PEFT_TYPE_TO_CONFIG_MAPPING[KIND] = BottleneckConfig
PEFT_TYPE_TO_TUNER_MAPPING[KIND] = BottleneckModel
PEFT_TYPE_TO_PREFIX_MAPPING[KIND] = BottleneckModel.prefix
