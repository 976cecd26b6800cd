rule benchmark_part:
    input:
        model=scored_model,
        heldout=HELDOUT,
        others=lambda wildcards: sorted(set(other_heldouts(wildcards).values())),
        current=current("benchmark_part", PART.replace("{file}", "manifest.json")),
    output:
        results=PART.replace("{file}", "results.json"),
        samples=PART.replace("{file}", "samples.jsonl"),
        manifest=PART.replace("{file}", "manifest.json"),
    log:
        f"{LOGS}/benchmark_part/{{dataset}}/{{scored}}/{{part}}.log",
    conda:
        "../envs/train.yaml"
    threads: CONFIG.evaluate.threads
    resources:
        **resources_of(scoring),
        download=int(CONFIG.evaluate.download),
    params:
        step=step("benchmark_part"),
        others=others_at,
    shell:
        "python scripts/benchmark_part.py --step {params.step:q} --log {log:q}"
        " --model {input.model:q} --heldout {input.heldout:q} --threads {threads}"
        " --others {params.others:q} --download {resources.download}"
        " --results {output.results:q} --samples {output.samples:q} --manifest {output.manifest:q}"


rule benchmark:
    input:
        model=scored_model,
        heldout=HELDOUT,
        others=lambda wildcards: sorted(set(other_heldouts(wildcards).values())),
        parts=score_parts,
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
        **(scoring_whole if CONFIG.evaluate.jobs > 1 else resources_of(scoring)),
        download=int(CONFIG.evaluate.download),
    params:
        step=step("benchmark"),
        others=others_at,
    shell:
        "python scripts/benchmark.py --step {params.step:q} --log {log:q}"
        " --model {input.model:q} --heldout {input.heldout:q} --threads {threads}"
        " --others {params.others:q} --download {resources.download} --parts {input.parts:q}"
        " --results {output.results:q} --samples {output.samples:q} --manifest {output.manifest:q}"


rule measure_heldout:
    input:
        model=scored_model,
        heldout=HELDOUT,
        current=current("measure_heldout", f"{SCORES}/heldout.manifest.json"),
    output:
        measured=f"{SCORES}/heldout.json",
        manifest=f"{SCORES}/heldout.manifest.json",
    log:
        f"{LOGS}/measure_heldout/{{dataset}}/{{scored}}.log",
    conda:
        "../envs/train.yaml"
    threads: CONFIG.evaluate.threads
    resources:
        **resources_of(scoring),
    params:
        step=step("measure_heldout"),
    shell:
        "python scripts/measure_heldout.py --step {params.step:q} --log {log:q}"
        " --model {input.model:q} --heldout {input.heldout:q} --threads {threads}"
        " --output {output.measured:q} --manifest {output.manifest:q}"


rule compare_run:
    input:
        **{
            name: scores(*of)
            for name, of in {
                "base": ("results.json", "base"),
                "tuned": ("results.json", "tuned"),
                "base_samples": ("samples.jsonl", "base"),
                "tuned_samples": ("samples.jsonl", "tuned"),
            }.items()
            if CONFIG.evaluate.tasks
        },
        base_heldout=scores("heldout.json", "base"),
        tuned_heldout=scores("heldout.json", "tuned"),
        contaminated=contaminated_rows,
        current=current("compare_run", COMPARISON.replace(".json", ".manifest.json")),
    output:
        comparison=report(
            COMPARISON,
            category="Evaluation",
            caption="captions/comparison.rst",
            labels={"model": "{tuned}", "of": "benchmarks"},
        ),
        heldout=report(
            COMPARISON.replace(".json", ".heldout.json"),
            category="Evaluation",
            caption="captions/heldout.rst",
            labels={"model": "{tuned}", "of": "held-out rows"},
        ),
        manifest=COMPARISON.replace(".json", ".manifest.json"),
    log:
        f"{LOGS}/compare_run/{{tuned}}.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    params:
        step=step("compare_run"),
        scores=lambda wildcards, input: score_options(input),
    shell:
        "python scripts/compare_run.py --step {params.step:q} --log {log:q}"
        " --base-heldout {input.base_heldout:q} --tuned-heldout {input.tuned_heldout:q}"
        " {params.scores:q} --contaminated {input.contaminated:q}"
        " --output {output.comparison:q} --heldout {output.heldout:q} --manifest {output.manifest:q}"
