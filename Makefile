# `make demo` and `make test` set up everything they need in .venv; nothing else has to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEVICE ?= cpu
BENCH_TESTS := bench/tests bench/botorch_risk_bench
# One thread for each of the two worker processes: torch's own threads would only fight over the cores.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: demo test test-bench two-trees test-all canary lint size types lock bench tutorials docs docs-serve release-check clean

# Each environment has the versions of constraints.txt, which `make lock` writes with requirements-test.txt.
TEST := ".[dev]" "./bench[dask,simulations,slurm]"
ALL := ".[bayesian,dev,docs]" "./bench[dask,peers,problems,simulations,slurm]" "baybe>=0.15" "bofire>=0.5" "optunahub>=0.5" "xopt>=3.2.2"
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
BOTH := --no-deps --no-build-isolation -e . -e ./bench -e ./testing
LOCK := $(VENV)/lock/bin/uv pip compile - --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--no-annotate --custom-compile-command "make lock" --no-emit-package botorch_risk --no-emit-package botorch-risk-bench --no-emit-package botorch-risk-testing

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lint: constraints.txt | $(BIN)/python
	$(INSTALL) -c constraints.txt ruff
	touch $@

$(VENV)/.bench: pyproject.toml bench/pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -c constraints.txt -e . -e ./bench
	touch $@

$(VENV)/.docs: pyproject.toml bench/pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -c constraints.txt -e ".[docs]" -e ./bench -e ./testing
	touch $@

$(VENV)/.dev: pyproject.toml bench/pyproject.toml requirements-test.txt | $(BIN)/python
	$(INSTALL) -r requirements-test.txt
	$(INSTALL) $(BOTH)
	touch $@ $(VENV)/.bench $(VENV)/.lint

$(VENV)/.all: pyproject.toml bench/pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -r constraints.txt
	$(INSTALL) $(BOTH)
	touch $@ $(VENV)/.dev $(VENV)/.docs $(VENV)/.bench $(VENV)/.lint

demo: $(VENV)/.bench  ## portfolios on real prices, from risk-neutral to averse (about a minute)
	$(BIN)/python -m botorch_risk_bench.reports.demo $(ARGS)

test: $(VENV)/.dev  ## the tests of the plugin, except those marked slow
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow" $(ARGS)

test-bench: $(VENV)/.dev  ## the tests of the bench, except those marked slow
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow" $(BENCH_TESTS) $(ARGS)

two-trees: $(VENV)/.dev  ## what the code of BEFORE=main~1 and this code decide from the same histories
	$(BIN)/python -m tests.two_trees $(BEFORE) $(ARGS)

test-all: $(VENV)/.all  ## every test of both, slow ones included; a skip for want of anything but a GPU or the papers' table fails
	$(BIN)/python -m pytest -p tests.only_known_skips -n 2 --dist worksteal -q tests botorch_risk testing $(BENCH_TESTS) $(ARGS)

# UPSTREAM="botorch@git+https://..." installs what is not released yet on top.
canary:  ## the tests with the newest versions of all dependencies, in an environment of its own
	$(PYTHON) -m venv --clear $(VENV)/canary
	$(VENV)/canary/bin/python -m pip install --quiet --disable-pip-version-check -e ".[dev]" -e "./bench[dask,simulations,slurm]" -e ./testing
	test -z "$(UPSTREAM)" || $(VENV)/canary/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(UPSTREAM)
	$(VENV)/canary/bin/python -m pip list --format=freeze
	$(VENV)/canary/bin/python -m pytest -q tests/test_private_names.py
	$(VENV)/canary/bin/python -m pytest -n 2 --dist worksteal -q -m "not slow" tests botorch_risk testing $(BENCH_TESTS) $(ARGS)

lint: $(VENV)/.lint size  ## ruff alone: it installs nothing else
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

size: | $(BIN)/python  ## the lines of each room next to its budget; ARGS=--write after rooms have moved
	$(BIN)/python -m tests.sizes $(ARGS)

types: $(VENV)/.dev  ## mypy, which reads the types of torch
	$(BIN)/mypy

# Versions stay as they are; ARGS=--upgrade brings the newest ones, ARGS="--upgrade-package botorch" one of them.
lock:  ## pin every distribution again, for all interpreters and platforms
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	printf '%s\n' $(ALL) | $(LOCK) -o constraints.txt $(ARGS)
	printf '%s\n' $(TEST) | $(LOCK) -o requirements-test.txt -c constraints.txt

bench: $(VENV)/.dev  ## every speed figure, side by side with what a user would otherwise run
	$(BIN)/python -m bench.speed --device $(DEVICE) $(ARGS)

tutorials: $(VENV)/.dev  ## run the notebooks in full and store them with their pictures
	env PYTHONPATH=$(CURDIR) $(BIN)/python -m pytest -q --nbmake --nbmake-timeout=600 --overwrite tutorials

docs: $(VENV)/.docs  ## the site, in docs/_build/html; warnings are errors, and every link inside it is followed
	rm -rf docs/_build
	$(BIN)/python -m sphinx -b html -q -W --keep-going -j 1 -c docs -d docs/_build/doctrees . docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

docs-serve: docs  ## the same, at http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind localhost --directory docs/_build/html

# ARGS='--oldest "torch==2.13.0 gpytorch==1.15.2 botorch==0.18.1"' where an older torch brings its GPU libraries.
release-check: $(VENV)/.dev  ## sdist and wheel, tested from the outside with the oldest and the newest dependencies
	$(BIN)/python -m tests.release_check $(ARGS)

clean:
	rm -rf docs/_build docs/api $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
