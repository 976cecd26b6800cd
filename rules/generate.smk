# Rows that a language model writes. Its answers are not an output: Snakemake would delete them with
# a failed job, and they would have to be paid for again.
rule generate:
    input:
        seeds=lambda wildcards: ancient(generate_of(wildcards).seeds),
        model=generating_model,
        current=current("generate", GENERATED.replace(".jsonl", ".manifest.json")),
    output:
        tasks=GENERATED,
        rejects=GENERATED.replace(".jsonl", ".rejects.jsonl"),
        manifest=GENERATED.replace(".jsonl", ".manifest.json"),
    log:
        f"{LOGS}/generate/{{dataset}}/{{source}}.log",
    conda:
        "../envs/train.yaml"
    threads: lambda wildcards: generate_of(wildcards).threads
    resources:
        **on_cpu(mem_mb=8000, minutes=1440),
        manner=lambda wildcards: json.dumps(generate_of(wildcards).manner()),
    params:
        step=step("generate"),
        journal=f"{RESULTS}/journals/{{dataset}}/{{source}}.jsonl",
        model=lambda wildcards, input: f"--model {input.model}" if input.model else "",
    shell:
        "python scripts/generate.py --step {params.step:q} --log {log:q}"
        " --manner {resources.manner:q} --journal {params.journal:q} {params.model}"
        " --output {output.tasks:q} --rejects {output.rejects:q} --manifest {output.manifest:q}"
