# make demo: install and run the main job. make test: install what the tests need and run all of them.
PYTHON ?= python3
BIN = .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test docs bench clean

demo: .venv/installed
	$(BIN)/lookalike demo

test: .venv/installed-test | /usr/bin/chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q -n 3 --dist loadfile

docs: .venv/installed-test
	$(BIN)/python docs/generate.py

bench: .venv/installed-bench
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python bench/evaluate_vs_peers.py
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python bench/hashers.py
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python bench/discovery.py

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

/usr/bin/chromium:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "installing Debian's chromium, in which the tests open reports"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; \
	else echo "the tests open reports in Chromium: install Debian's package chromium (as root: apt-get install chromium)"; exit 1; fi

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lookalike needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing into .venv, about a minute"
	$(PIP) -e .[report]
	@touch $@

.venv/installed-test: .venv/installed
	$(PIP) -e .[test]
	@touch $@

.venv/installed-bench: .venv/installed
	$(PIP) -e .[bench]
	@touch $@
