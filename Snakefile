# Anneal: raw files to a benchmarked model, as one DAG.
#
#   snakemake --profile profiles/local                     the demo, config/config.yaml
#   snakemake --profile profiles/local --configfile X.yaml your own project
#   snakemake --profile profiles/local data                one of the targets below, and all before it
from snakemake.utils import min_version

min_version("9.27")


include: "rules/common.smk"
include: "rules/resources.smk"
include: "rules/generate.smk"
include: "rules/sources.smk"
include: "rules/clean.smk"
include: "rules/format.smk"
include: "rules/tokenize.smk"
include: "rules/split.smk"
include: "rules/stream.smk"
include: "rules/search.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/report.smk"
include: "rules/plan.smk"


localrules:
    all,
    data,
    search,
    train,
    evaluate,
    report,
    plan,


rule all:
    default_target: True
    input:
        REPORT,


rule data:
    input:
        list(map(splits_of, CONFIG.runs.values())),
        expand(LEDGER, dataset=STORED),
        expand(SAMPLE, dataset=STREAMED),
        expand(HELDOUT, dataset=CONFIG.datasets),


rule search:
    input:
        expand(BEST, study=CONFIG.search),
        expand(f"{SEARCH}/range_test.json", study=CONFIG.search),


rule train:
    input:
        expand(RUN, run=CONFIG.runs),


rule evaluate:
    input:
        expand(COMPARISON, tuned=COMPARED),


rule report:
    input:
        REPORT,
