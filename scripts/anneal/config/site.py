"""profiles/slurm/site.yaml: what only the site of a cluster knows."""

from pydantic import Field

from anneal.config.base import Name, Section


class Partition(Section):
    """Where jobs of one kind go."""

    name: Name | None = Field(None, description="Unset: the cluster's default partition.")
    max_minutes: int | None = Field(None, ge=1, description="Its longest run time.")


class Partitions(Section):
    """Where jobs go."""

    cpu: Partition = Field(default_factory=Partition, description="Jobs without a GPU.")
    gpu: Partition = Field(default_factory=Partition, description="Jobs with GPUs.")


class Site(Section):
    """Account, partitions and GPU types."""

    account: Name | None = Field(None, description="Account of sbatch; unset: your default one.")
    partitions: Partitions = Field(default_factory=Partitions, description="Where jobs go.")
    gpus: dict[Name, Name] = Field(
        default_factory=dict, description="Type of each GPU in Slurm's gres, by its hardware name."
    )
