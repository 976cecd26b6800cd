# Checkpoints are not an output: Snakemake would delete them with a failed job.
rule train_run:
    input:
        base=run_base,
        splits=run_splits,
        reward=run_reward,
        adapters=run_adapters,
        best=run_best,
        current=current("train_run", RUN),
    output:
        report(RUN, category="Runs", caption="captions/run.rst", labels={"run": "{run}"}),
    log:
        f"{LOGS}/train_run/{{run}}.log",
    conda:
        "../envs/train.yaml"
    threads: lambda wildcards: run_of(wildcards).threads * run_of(wildcards).strategy.processes
    resources:
        **resources_of(training),
        tracker=lambda wildcards: run_of(wildcards).tracker,
        strategy=lambda wildcards: run_of(wildcards).strategy.model_dump_json(),
    params:
        step=step("train_run"),
        checkpoints=f"{RESULTS}/checkpoints/{{run}}",
        trackers=f"{RESULTS}/trackers/{{run}}",
        reward=lambda wildcards, input: f"--reward {input.reward}" if input.reward else "",
        best=lambda wildcards, input: f"--best {input.best}" if input.best else "",
    shell:
        "python scripts/launch.py --strategy {resources.strategy:q} --cpus {threads}"
        " scripts/train_run.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --splits {input.splits:q} --checkpoints {params.checkpoints:q}"
        " {params.reward} {params.best} --adapters {input.adapters:q}"
        " --tracker {resources.tracker} --trackers {params.trackers:q} --threads {threads}"
        " --manifest {output:q}"
