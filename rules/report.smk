rule write_report:
    input:
        gates=expand(f"{DATA}/gates.json", dataset=STORED),
        samples=expand(SAMPLE, dataset=STREAMED),
        splits=datasets_of_runs(SPLITS),
        runs=expand(RUN, run=CONFIG.runs),
        comparisons=expand(COMPARISON, tuned=COMPARED),
        current=current("write_report", REPORT.replace("report.html", "manifest.json")),
    output:
        html=report(REPORT, category="Report", caption="captions/report.rst"),
        json=REPORT.replace(".html", ".json"),
        manifest=REPORT.replace("report.html", "manifest.json"),
    log:
        f"{LOGS}/write_report.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    params:
        step=step("write_report"),
        results=lambda wildcards: RESULTS,
    shell:
        "python scripts/write_report.py --step {params.step:q} --log {log:q}"
        " --results {params.results:q} --inputs {input:q}"
        " --html {output.html:q} --json {output.json:q} --manifest {output.manifest:q}"
