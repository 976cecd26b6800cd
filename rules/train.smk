# Checkpoints are not an output: Snakemake would delete them with a failed job.
rule train_run:
    input:
        base=run_base,
        splits=run_splits,
        reward=run_reward,
        adapters=run_adapters,
        current=current("train_run", RUN),
    output:
        RUN,
    log:
        f"{LOGS}/train_run/{{run}}.log",
    conda:
        "../envs/train.yaml"
    threads: lambda wildcards: run_of(wildcards).threads
    resources:
        mem_mb=lambda wildcards: run_of(wildcards).mem_mb,
        tracker=lambda wildcards: run_of(wildcards).tracker,
    params:
        step=step("train_run"),
        checkpoints=f"{RESULTS}/checkpoints/{{run}}",
        reward=lambda wildcards, input: f"--reward {input.reward}" if input.reward else "",
    shell:
        "python scripts/train_run.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --splits {input.splits:q} --checkpoints {params.checkpoints:q}"
        " {params.reward} --adapters {input.adapters:q}"
        " --tracker {resources.tracker} --threads {threads} --manifest {output:q}"
