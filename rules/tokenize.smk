rule tokenize_shard:
    input:
        texts=f"{TOKENS}/text/{{shard}}.parquet",
        model=MODEL,
        current=current("tokenize_shard", f"{TOKENS}/ids/{{shard}}/manifest.json"),
    output:
        f"{TOKENS}/ids/{{shard}}/manifest.json",
    log:
        f"{LOGS}/tokenize_shard/{{dataset}}/{{model}}/{{shard}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_shard,
    params:
        step=step("tokenize_shard"),
    shell:
        "python scripts/tokenize_shard.py --step {params.step:q} --log {log:q}"
        " --texts {input.texts:q} --model {input.model:q} --manifest {output:q}"
