rule clean_shard:
    input:
        records=f"{DATA}/records/{{shard}}.parquet",
        current=current("clean_shard", f"{DATA}/clean/{{shard}}.manifest.json"),
    output:
        records=f"{DATA}/clean/{{shard}}.parquet",
        review=f"{DATA}/clean/{{shard}}.review.json",
        manifest=f"{DATA}/clean/{{shard}}.manifest.json",
    log:
        f"{LOGS}/clean_shard/{{dataset}}/{{shard}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_shard,
    params:
        step=step("clean_shard"),
    shell:
        "python scripts/clean_shard.py --step {params.step:q} --log {log:q}"
        " --records {input.records:q} --output {output.records:q}"
        " --review {output.review:q} --manifest {output.manifest:q}"


rule select_rows:
    input:
        records=every_shard(f"{DATA}/clean/{{shard}}.parquet"),
        current=current("select_rows", f"{DATA}/drops.manifest.json"),
    output:
        drops=f"{DATA}/drops.parquet",
        contaminated=f"{DATA}/contaminated.parquet",
        manifest=f"{DATA}/drops.manifest.json",
    log:
        f"{LOGS}/select_rows/{{dataset}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("select_rows"),
        records=shards_at(f"{DATA}/clean/{{shard}}.parquet"),
    shell:
        "python scripts/select_rows.py --step {params.step:q} --log {log:q}"
        " --records {params.records:q} --output {output.drops:q}"
        " --contaminated {output.contaminated:q} --manifest {output.manifest:q}"
