rule assign_splits:
    input:
        records=every_shard(f"{DATA}/clean/{{shard}}.parquet"),
        rejects=every_shard(f"{DATA}/records/{{shard}}.rejects.parquet"),
        drops=f"{DATA}/drops.parquet",
        current=current("assign_splits", f"{DATA}/ledger.manifest.json"),
    output:
        ledger=LEDGER,
        gates=report(
            f"{DATA}/gates.json",
            category="Data",
            caption="captions/gates.rst",
            labels={"dataset": "{dataset}"},
        ),
        manifest=f"{DATA}/ledger.manifest.json",
    log:
        f"{LOGS}/assign_splits/{{dataset}}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("assign_splits"),
        records=shards_at(f"{DATA}/clean/{{shard}}.parquet"),
        rejects=shards_at(f"{DATA}/records/{{shard}}.rejects.parquet"),
    shell:
        "python scripts/assign_splits.py --step {params.step:q} --log {log:q}"
        " --records {params.records:q} --rejects {params.rejects:q} --drops {input.drops:q}"
        " --ledger {output.ledger:q} --gates {output.gates:q} --manifest {output.manifest:q}"


rule write_splits:
    input:
        tokens=every_shard(f"{TOKENS}/ids/{{shard}}/manifest.json"),
        ledger=LEDGER,
        current=current("write_splits", SPLITS),
    output:
        SPLITS,
    log:
        f"{LOGS}/write_splits/{{dataset}}/{{model}}.log",
    wildcard_constraints:
        dataset=one_of(STORED),
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("write_splits"),
        tokens=shards_at(f"{TOKENS}/ids/{{shard}}/manifest.json"),
    shell:
        "python scripts/write_splits.py --step {params.step:q} --log {log:q}"
        " --tokens {params.tokens:q} --ledger {input.ledger:q} --manifest {output:q}"


rule write_heldout:
    input:
        records=every_shard(f"{DATA}/clean/{{shard}}.parquet"),
        ledger=LEDGER,
        current=current("write_heldout", f"{DATA}/heldout.manifest.json"),
    output:
        heldout=HELDOUT,
        manifest=f"{DATA}/heldout.manifest.json",
    log:
        f"{LOGS}/write_heldout/{{dataset}}.log",
    wildcard_constraints:
        dataset=one_of(STORED),
    conda:
        "../envs/data.yaml"
    resources:
        **on_whole,
    params:
        step=step("write_heldout"),
        records=shards_at(f"{DATA}/clean/{{shard}}.parquet"),
    shell:
        "python scripts/write_heldout.py --step {params.step:q} --log {log:q}"
        " --records {params.records:q} --ledger {input.ledger:q}"
        " --output {output.heldout:q} --manifest {output.manifest:q}"
