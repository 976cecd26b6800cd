rule fetch_model:
    input:
        origins=model_origins,
        current=current("fetch_model", MODEL),
    output:
        MODEL,
    log:
        f"{LOGS}/fetch_model/{{model}}.log",
    conda:
        "../envs/train.yaml"
    resources:
        **on_cpu(mem_mb=8000, minutes=240),
    params:
        step=step("fetch_model"),
        origins=origins_at,
    shell:
        "python scripts/fetch_model.py --step {params.step:q} --log {log:q} --manifest {output:q}"
        " --origins {params.origins:q}"


rule read_shard:
    input:
        raw=lambda wildcards: ancient(STEPS.raw_file(wildcards)),
        made=lambda wildcards: STEPS.generated_file(wildcards),
        current=current("read_shard", f"{DATA}/records/{{shard}}.manifest.json"),
    output:
        records=f"{DATA}/records/{{shard}}.parquet",
        rejects=f"{DATA}/records/{{shard}}.rejects.parquet",
        manifest=f"{DATA}/records/{{shard}}.manifest.json",
    log:
        f"{LOGS}/read_shard/{{dataset}}/{{shard}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_shard,
    params:
        step=step("read_shard"),
    shell:
        "python scripts/read_shard.py --step {params.step:q} --log {log:q}"
        " --records {output.records:q} --rejects {output.rejects:q} --manifest {output.manifest:q}"
