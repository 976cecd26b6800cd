# Journals of studies are not an output: a killed worker goes on with its study.
rule range_test:
    input:
        base=study_base,
        splits=study_splits,
        current=current("range_test", f"{SEARCH}/range_test.manifest.json"),
    output:
        curve=f"{SEARCH}/range_test.json",
        plot=report(
            f"{SEARCH}/range_test.svg",
            category="Search",
            caption="captions/range_test.rst",
            labels={"study": "{study}", "of": "learning-rate range test"},
        ),
        manifest=f"{SEARCH}/range_test.manifest.json",
    log:
        f"{LOGS}/range_test/{{study}}.log",
    conda:
        "../envs/train.yaml"
    threads: lambda wildcards: study_run(wildcards).threads
    resources:
        **resources_of(searching),
    params:
        step=step("range_test"),
    shell:
        "python scripts/range_test.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --splits {input.splits:q} --threads {threads}"
        " --curve {output.curve:q} --plot {output.plot:q} --manifest {output.manifest:q}"


rule run_trials:
    input:
        base=study_base,
        splits=study_splits,
        current=current("run_trials", f"{SEARCH}/workers/{{worker}}.json"),
    output:
        f"{SEARCH}/workers/{{worker}}.json",
    log:
        f"{LOGS}/run_trials/{{study}}/{{worker}}.log",
    conda:
        "../envs/train.yaml"
    threads: lambda wildcards: study_run(wildcards).threads
    resources:
        **resources_of(searching),
        workers=lambda wildcards: CONFIG.search[wildcards.study].workers,
    params:
        step=step("run_trials"),
        studies=f"{SEARCH}/studies",
    shell:
        "python scripts/run_trials.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --splits {input.splits:q} --studies {params.studies:q}"
        " --worker {wildcards.worker} --workers {resources.workers} --threads {threads}"
        " --manifest {output:q}"


rule best_trial:
    input:
        workers=study_workers,
        current=current("best_trial", f"{SEARCH}/best.manifest.json"),
    output:
        best=BEST,
        plot=report(
            f"{SEARCH}/history.svg",
            category="Search",
            caption="captions/history.rst",
            labels={"study": "{study}", "of": "trials"},
        ),
        manifest=f"{SEARCH}/best.manifest.json",
    log:
        f"{LOGS}/best_trial/{{study}}.log",
    localrule: True
    conda:
        "../envs/train.yaml"
    params:
        step=step("best_trial"),
        studies=f"{SEARCH}/studies",
    shell:
        "python scripts/best_trial.py --step {params.step:q} --log {log:q}"
        " --workers {input.workers:q} --studies {params.studies:q}"
        " --best {output.best:q} --plot {output.plot:q} --manifest {output.manifest:q}"
