# make demo   the sample shop with three orders on their way (ONCE=1: stop when all three are finished)
# make test   the whole suite, on the servers that this machine has (ARGS="-k signals" is passed on to pytest)
# make check  lint, format, types, layers
# make bench  how fast it all is, beside its peers and among a million workflows (ARGS="scale waits" for some of it)
# make docs   the manuals and the reference, as pages in build/docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
# How many tests run at once.
PROCESSES ?= auto
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check docs bench clean install

install: $(INSTALLED)

# The stamp is older than pyproject.toml whenever a dependency may have changed.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"
	$(PIP) install --quiet --editable . --group dev
	touch $@

demo: install
	@ONCE=$(ONCE) $(BIN)/python -m sample_app.demo

test: install
	$(BIN)/python -m pytest --numprocesses=$(PROCESSES) --cov --cov-report=term $(ARGS)

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install
	$(PIP) install --quiet --group docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs

# The peer to compare with is installed for the benchmark alone.
bench: install
	$(PIP) install --quiet --group bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
