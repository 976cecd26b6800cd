rule benchmark:
    input:
        model=scored_model,
        heldout=HELDOUT,
        others=lambda wildcards: sorted(set(other_heldouts(wildcards).values())),
        current=current("benchmark", f"{SCORES}/manifest.json"),
    output:
        results=f"{SCORES}/results.json",
        samples=f"{SCORES}/samples.jsonl",
        manifest=f"{SCORES}/manifest.json",
    log:
        f"{LOGS}/benchmark/{{dataset}}/{{scored}}.log",
    conda:
        "../envs/train.yaml"
    threads: CONFIG.evaluate.threads
    resources:
        **resources_of(scoring),
    params:
        step=step("benchmark"),
        others=lambda wildcards: [f"{n}={file}" for n, file in other_heldouts(wildcards).items()],
    shell:
        "python scripts/benchmark.py --step {params.step:q} --log {log:q}"
        " --model {input.model:q} --heldout {input.heldout:q} --threads {threads}"
        " --others {params.others:q}"
        " --results {output.results:q} --samples {output.samples:q} --manifest {output.manifest:q}"


rule compare_run:
    input:
        base=scores("results.json", "base"),
        tuned=scores("results.json", "tuned"),
        base_samples=scores("samples.jsonl", "base"),
        tuned_samples=scores("samples.jsonl", "tuned"),
        current=current("compare_run", COMPARISON.replace(".json", ".manifest.json")),
    output:
        comparison=COMPARISON,
        manifest=COMPARISON.replace(".json", ".manifest.json"),
    log:
        f"{LOGS}/compare_run/{{tuned}}.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    params:
        step=step("compare_run"),
    shell:
        "python scripts/compare_run.py --step {params.step:q} --log {log:q}"
        " --base {input.base:q} --tuned {input.tuned:q}"
        " --base-samples {input.base_samples:q} --tuned-samples {input.tuned_samples:q}"
        " --output {output.comparison:q} --manifest {output.manifest:q}"
