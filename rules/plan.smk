# What each run needs and costs. It has no input: it reads what is there, and is made anew when asked.
rule plan:
    input:
        anew=anew(f"{RESULTS}/plan/plan.json"),
    output:
        json=f"{RESULTS}/plan/plan.json",
        page=f"{RESULTS}/plan/plan.md",
    log:
        f"{LOGS}/plan.log",
    conda:
        "../envs/train.yaml"
    params:
        config=CONFIG_FILE,
    shell:
        "python scripts/plan.py --log {log:q} --config {params.config:q}"
        " --json {output.json:q} --page {output.page:q}"
