"""Section `strategy` of a run: how many processes train it, and how they share the work."""

from typing import Literal

from pydantic import Field, model_validator

from anneal.config.base import Section

SHARDED = ("fsdp", "deepspeed")


class Strategy(Section):
    """How many processes train, and what each of them holds."""

    kind: Literal["single", "ddp", "fsdp", "deepspeed", "tensor_parallel"] = Field(
        "single",
        description="`single`: one process; `ddp`: the whole model in each process; `fsdp`: "
        "weights, gradients and optimiser in shards; `deepspeed`: the same by ZeRO; "
        "`tensor_parallel`: each matrix split over the processes of a node.",
    )
    nodes: int = Field(1, ge=1, description="Machines that train together.")
    processes: int = Field(1, ge=1, description="Processes on each machine: one a GPU.")
    offload: bool = Field(
        False,
        description="Keep shards of weights and optimiser in the machine's memory: `fsdp`, and "
        "`deepspeed` of stage 3; of stage 2 the optimiser only.",
    )
    zero_stage: int = Field(3, ge=2, le=3, description="ZeRO stage of `deepspeed`.")
    fsdp_version: int = Field(2, ge=1, le=2, description="FSDP of PyTorch: 2 is the current one.")

    @property
    def world_size(self) -> int:
        """Processes on all machines."""
        return self.nodes * self.processes

    @property
    def data_processes(self) -> int:
        """Processes that get different rows; those of `tensor_parallel` share each row."""
        return 1 if self.kind == "tensor_parallel" else self.world_size

    @property
    def sharded(self) -> bool:
        """Whether no process holds the whole model while it trains."""
        return self.kind in SHARDED

    @property
    def resumes(self) -> bool:
        """Whether checkpoints are saved; the state of split matrices cannot be taken up again."""
        return self.kind != "tensor_parallel"

    @model_validator(mode="after")
    def _processes_fit_the_kind(self):
        if self.kind == "single" and self.world_size > 1:
            raise ValueError(f"kind 'single' is one process, not {self.world_size}: choose 'ddp'")
        if self.kind == "tensor_parallel" and self.nodes > 1:
            raise ValueError("kind 'tensor_parallel' splits over the processes of one node")
        if self.offload and self.kind not in SHARDED:
            raise ValueError(f"offload goes with {' and '.join(SHARDED)}, not '{self.kind}'")
        return self
