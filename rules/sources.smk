rule fetch_model:
    input:
        current("fetch_model", MODEL),
    output:
        MODEL,
    params:
        step=step("fetch_model"),
    log:
        f"{LOGS}/fetch_model/{{model}}.log",
    resources:
        mem_mb=8000,
    shell:
        "python scripts/fetch_model.py --step {params.step:q} --log {log:q} --manifest {output:q}"


rule read_shard:
    input:
        raw=lambda wildcards: ancient(STEPS.raw_file(wildcards)),
        current=current("read_shard", f"{DATA}/records/{{shard}}.manifest.json"),
    output:
        records=f"{DATA}/records/{{shard}}.parquet",
        rejects=f"{DATA}/records/{{shard}}.rejects.parquet",
        manifest=f"{DATA}/records/{{shard}}.manifest.json",
    params:
        step=step("read_shard"),
    log:
        f"{LOGS}/read_shard/{{dataset}}/{{shard}}.log",
    shell:
        "python scripts/read_shard.py --step {params.step:q} --log {log:q}"
        " --records {output.records:q} --rejects {output.rejects:q} --manifest {output.manifest:q}"
