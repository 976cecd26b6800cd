rule format_shard:
    input:
        records=f"{DATA}/clean/{{shard}}.parquet",
        model=MODEL,
        current=current("format_shard", f"{TOKENS}/text/{{shard}}.manifest.json"),
    output:
        texts=f"{TOKENS}/text/{{shard}}.parquet",
        manifest=f"{TOKENS}/text/{{shard}}.manifest.json",
    log:
        f"{LOGS}/format_shard/{{dataset}}/{{model}}/{{shard}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_shard,
    params:
        step=step("format_shard"),
    shell:
        "python scripts/format_shard.py --step {params.step:q} --log {log:q}"
        " --records {input.records:q} --model {input.model:q}"
        " --output {output.texts:q} --manifest {output.manifest:q}"
