# Datasets that are read while training; nothing of them is stored but a few rows to judge by.
rule sample_stream:
    input:
        raw=lambda wildcards: ancient(STEPS.raw_files(wildcards)),
        current=current("sample_stream", f"{DATA}/sample.manifest.json"),
    output:
        sample=SAMPLE,
        heldout=HELDOUT,
        manifest=f"{DATA}/sample.manifest.json",
    log:
        f"{LOGS}/sample_stream/{{dataset}}.log",
    wildcard_constraints:
        dataset=one_of(STREAMED),
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("sample_stream"),
        plan=f"{DATA}/plan.json",
        rejects=f"{DATA}/sample.rejects.jsonl",
    shell:
        "python scripts/sample_stream.py --step {params.step:q} --log {log:q}"
        " --plan {params.plan:q} --rejects {params.rejects:q} --output {output.sample:q}"
        " --heldout {output.heldout:q} --manifest {output.manifest:q}"


rule write_stream:
    input:
        sample=SAMPLE,
        model=MODEL,
        current=current("write_stream", SPLITS),
    output:
        SPLITS,
    log:
        f"{LOGS}/write_stream/{{dataset}}/{{model}}.log",
    wildcard_constraints:
        dataset=one_of(STREAMED),
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("write_stream"),
        plan=f"{DATA}/plan.json",
    shell:
        "python scripts/write_stream.py --step {params.step:q} --log {log:q}"
        " --plan {params.plan:q} --sample {input.sample:q} --model {input.model:q}"
        " --manifest {output:q}"
