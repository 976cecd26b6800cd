def run_of(wildcards):
    return CONFIG.runs[wildcards.run]


def run_base(wildcards):
    return MODEL.format(model=run_of(wildcards).model)


def run_splits(wildcards):
    return SPLITS.format(dataset=run_of(wildcards).dataset, model=run_of(wildcards).model)


# Checkpoints are not an output: Snakemake would delete them with a failed job.
rule train_run:
    input:
        base=run_base,
        splits=run_splits,
        current=current("train_run", RUN),
    output:
        RUN,
    params:
        step=step("train_run"),
        checkpoints=f"{RESULTS}/checkpoints/{{run}}",
    log:
        f"{LOGS}/train_run/{{run}}.log",
    threads: lambda wildcards: run_of(wildcards).threads
    resources:
        mem_mb=lambda wildcards: run_of(wildcards).mem_mb,
        tracker=lambda wildcards: run_of(wildcards).tracker,
    shell:
        "python scripts/train_run.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --splits {input.splits:q} --checkpoints {params.checkpoints:q}"
        " --tracker {resources.tracker} --threads {threads} --manifest {output:q}"
