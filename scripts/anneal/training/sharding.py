"""A strategy as arguments of the Trainer: FSDP, and DeepSpeed's ZeRO, whose settings are here."""

from accelerate import DistributedType, ParallelismConfig
from torch.distributed.tensor import DTensor
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

HOUR = 3600


def sharing(job) -> dict:
    """Keyword arguments of `TrainingArguments` for the strategy of a job."""
    strategy = job.strategy
    # the others wait while the first process saves and verifies
    given = {"ddp_timeout": 2 * HOUR} if strategy.world_size > 1 else {}
    if strategy.kind == "ddp":
        return given | {"ddp_find_unused_parameters": False}
    if strategy.kind == "fsdp":
        checkpointing = job.training["gradient_checkpointing"]
        whole = {"activation_checkpointing": False} if checkpointing else {}
        return given | whole | {"fsdp": True, "fsdp_config": fsdp_config(strategy, checkpointing)}
    if strategy.kind == "deepspeed":
        return given | {"deepspeed": deepspeed_config(strategy)}
    if strategy.kind == "tensor_parallel":
        # transformers cannot take up the optimiser of a model that is split when it is loaded
        split = {"parallelism_config": Split(tp_size=strategy.world_size)}
        return given | split | {"save_strategy": "no"}
    return given


class Split(ParallelismConfig):
    """Tensor parallel; accelerate would refuse it on CPUs, where it is only slow."""

    def _validate_accelerator(self, accelerator):
        if accelerator.distributed_type != DistributedType.MULTI_CPU:
            super()._validate_accelerator(accelerator)


def started(arguments, strategy):
    """The arguments, once the processes know each other: only then is a shard loaded as a shard."""
    if strategy.kind == "deepspeed":
        import deepspeed

        _ = arguments.device
        deepspeed.init_distributed(dist_init_required=False)
    return arguments


def fsdp_config(strategy, checkpointing: bool) -> dict:
    """Full shard; each block of the model, which transformers knows, is a unit of its own."""
    return {
        "version": strategy.fsdp_version,
        "reshard_after_forward": True if strategy.fsdp_version == 2 else "full_shard",
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "activation_checkpointing": checkpointing,
        "cpu_offload": strategy.offload,
        "sync_module_states": False,  # each process has loaded the same weights
        "state_dict_type": "SHARDED_STATE_DICT",
    }


def deepspeed_config(strategy) -> dict:
    """ZeRO of a stage; the Trainer fills in what says `auto`.

    torch's AdamW steps on offloaded state too: DeepSpeed's own needs a compiler on each node.
    """
    zero = {"stage": strategy.zero_stage, "overlap_comm": True, "contiguous_gradients": True}
    if strategy.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if strategy.zero_stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
        if strategy.offload:
            zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
    }


def plain(trainer):
    """The model without what training put around it, such as autocast."""
    return trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)


def whole_tensors(trainer, strategy) -> dict | None:
    """All weights of a model that is in shards, gathered by all processes; None if it is not."""
    if strategy.sharded:
        tensors = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        unset_hf_deepspeed_config()  # what is loaded from here on is loaded whole
        return tensors
    if strategy.kind == "tensor_parallel":
        return {name: whole(tensor) for name, tensor in plain(trainer).state_dict().items()}
    return None


def whole(tensor):
    """A tensor that may be split over processes, whole."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
