# make demo   install into .venv and run the demonstration
# make test   all checks of the build server: style, types, import rules, tests, README
# make lint   style, types and import rules only
# make docs   the documentation in docs/_build/html, with the gallery; warnings and broken links are errors (minutes)
# make release-check        build wheel and sdist, install the wheel in an empty environment, run the README example there
# make clean  remove everything that make made
# make fuzz N=1000000       hostile model files (hours); BOUNDSCHECK=1 checks every index in the kernels, JOBS=2 processes
# make reproduce            rerun the papers and write docs/reproduction.md (needs MANYCLASS_DATA; 75 minutes on two cores)
# make reproduce QUICK=1    the same on small slices, a check that the scripts run (five minutes once compiled)
# make reproduce-recall-tree    tables and plots of the Recall Tree paper (needs MANYCLASS_DATA; an hour)
# make reproduce-label-tree     ablation and online tables of the label tree (needs MANYCLASS_DATA; ten minutes)
# make reproduce-lom-trees      tables of the LOM and MLOM trees (needs MANYCLASS_DATA; half an hour)
# make reproduce-spectral-tree  tables of the spectral tree and their search (needs MANYCLASS_DATA; an hour)
# make reproduce-files      parsing speed, damaged lines and models, interrupted training, rounded weights (half an hour)
# make reproduce-theory     the theorems, bounds and remarks of the papers, counted (a minute)
# make race                 our estimators and other packages on the same rows, writes docs/race.md (hours)
# make race QUICK=1         the same on small slices, a check that all run (five minutes once the packages are installed)
# make bench-torch DATA=folder  TreeHead on a GPU, as benchmarks/torch/README.md says; PYTHON has PyTorch (a quarter of an hour)
# make bench                speed: ALOI, up to a million classes, single rows, first use, sparse text (half an hour, idle)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint docs release-check fuzz clean reproduce reproduce-recall-tree reproduce-label-tree \
  reproduce-lom-trees reproduce-spectral-tree reproduce-files reproduce-theory bench bench-torch race
.DEFAULT_GOAL := test

demo: .venv/.installed-cli
	@$(BIN)/manyclass demo

# worksteal: each of the two processes starts with one half of the files, so that they rarely compile the same
# algorithm at the same time, and takes tests from the other one at the end.
# TESTS takes more options: make test TESTS='-m "not slow"'
test: lint
	@$(BIN)/pytest -q -n 2 --dist worksteal $(TESTS)

lint: .venv/.installed-dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }

# GALLERY=0 leaves out the examples, for a quick look.
docs: .venv/.installed-docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python scripts/check_site.py docs/_build/html
	@$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md ARCHITECTURE.md SECURITY.md docs/*.md docs/algorithms docs/gallery
	@echo "Open docs/_build/html/index.html"

# RESOLUTION=lowest-direct installs the oldest dependencies that pyproject.toml allows.
release-check: .venv/.installed-release
	@$(BIN)/python scripts/check_release.py --resolution $(or $(RESOLUTION),highest)

fuzz: .venv/.installed-dev
	@$(BIN)/python tests/fuzz/fuzz_models.py --n $(or $(N),100000) --jobs $(or $(JOBS),1) \
	  $(if $(BOUNDSCHECK),--boundscheck) $(FUZZ)

# More options: make reproduce REPRODUCE='--only figure_4 in_order'
reproduce: .venv/.installed-plot
	@$(BIN)/python reproduce/all.py $(if $(QUICK),--quick) $(REPRODUCE)

RECALL_TREE := $(addprefix reproduce/recall_tree_2017/,figure_3.py figure_4.py aloi.py candidates_and_path_features.py bernstein.py \
  in_order.py printed_rules.py)

reproduce-recall-tree: .venv/.installed-plot
	@for script in $(RECALL_TREE); do echo "== $$script" && $(BIN)/python $$script || exit 1; done

reproduce-lom-trees: .venv/.installed-plot
	@$(BIN)/python reproduce/online_tree_2013/table_1.py
	@for script in table_1.py figures_1_to_3.py errors.py depth.py time_per_sample.py; do \
	  $(BIN)/python reproduce/mlom_tree_2018/$$script || exit 1; done

reproduce-spectral-tree: .venv/.installed-plot
	@for script in table_1.py search.py aloi.py spread.py topics.py tables_5_and_6.py table_7.py discussion.py; do \
	  $(BIN)/python reproduce/spectral_tree_2015/$$script || exit 1; done

reproduce-label-tree: .venv/.installed-plot
	@for script in online.py ablation.py slim.py memory.py; do $(BIN)/python reproduce/label_tree/$$script || exit 1; done

reproduce-files: .venv/.installed-plot
	@for script in parsing.py memory.py mutated_lines.py mutated_models.py kills.py precision.py; do \
	  echo "== $$script" && $(BIN)/python reproduce/files/$$script || exit 1; done

reproduce-theory: .venv/.installed-plot
	@for script in theorem_2.py proposition_1.py remarks.py; do $(BIN)/python reproduce/theory/$$script || exit 1; done

# An interrupted race continues where it stopped. More options: make race RACE='--entrants pecos --again pecos'
race: .venv/.installed-plot
	@$(BIN)/python benchmarks/race.py --folder .venv/peers $(if $(QUICK),--quick) $(RACE)

bench: .venv/.installed-plot
	@$(BIN)/python benchmarks/speed/aloi.py --crossed --vw-folder .venv/vowpalwabbit $(if $(QUICK),--quick)
	@$(BIN)/python benchmarks/speed/classes.py --vw-folder .venv/vowpalwabbit $(if $(QUICK),--quick)
	@$(BIN)/python benchmarks/speed/classes.py --rows-per-class 20 --most 100000 --name classes_20 \
	  --vw-folder .venv/vowpalwabbit $(if $(QUICK),--quick)
	@for script in single_rows.py first_use.py sparse.py; do \
	  $(BIN)/python benchmarks/speed/$$script $(if $(QUICK),--quick) || exit 1; done

# Without a GPU, the tests and speed.py say that they are skipped.
bench-torch:
	@$(PYTHON) -c "import sys, torch; torch.cuda.is_available() or sys.exit('make bench-torch requires a CUDA device; none is available.')"
	@PYTHONPATH=src $(PYTHON) -m pytest -q -rs tests/torch
	@PYTHONPATH=src $(PYTHON) benchmarks/torch/speed.py $(DATA) --out $(DATA)/speed.json
	@PYTHONPATH=src $(PYTHON) benchmarks/torch/accuracy.py $(DATA) --out $(DATA)/accuracy.json
	@PYTHONPATH=src $(PYTHON) benchmarks/torch/accuracy.py $(DATA) --out $(DATA)/accuracy.json --time
	@PYTHONPATH=src $(PYTHON) benchmarks/torch/page.py $(DATA)/speed.json $(DATA)/accuracy.json

clean:
	@rm -rf .venv build dist docs/_build docs/auto_gallery docs/generated tests/fuzz/.boundscheck .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml if the installed dependencies are up to date. The install is editable, so a
# change of the sources needs no new install.
.venv/.installed-cli: pyproject.toml .venv/.made
	@echo "Installing manyclass into .venv (once; about a minute)"
	@$(PIP) install --editable '.[cli]'
	@touch $@

.venv/.installed-dev: pyproject.toml .venv/.made
	@echo "Installing manyclass and its test tools into .venv (once; about a minute)"
	@$(PIP) install --editable '.[dev]'
	@touch .venv/.installed-cli .venv/.installed-plot $@

.venv/.installed-docs: pyproject.toml .venv/.made
	@echo "Installing manyclass and Sphinx into .venv (once; about a minute)"
	@$(PIP) install --editable '.[docs]'
	@touch .venv/.installed-cli .venv/.installed-plot $@

.venv/.installed-release: .venv/.made
	@$(PIP) install build uv
	@touch $@

.venv/.installed-plot: pyproject.toml .venv/.made
	@echo "Installing manyclass and matplotlib into .venv (once; about a minute)"
	@$(PIP) install --editable '.[cli,data,plot]'
	@touch .venv/.installed-cli $@

.venv/.made:
	@for candidate in '$(PYTHON)' python3.13 python3.12 python3.11 python3.14; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "manyclass needs Python 3.11 or newer; '$(PYTHON)' is: $$('$(PYTHON)' --version 2>&1)." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	"$$found" -m venv --clear .venv || { rm -rf .venv; \
	  echo "'$$found -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@
