# The tasks of a checkout. Every target sets up what it needs; see scripts/setup.sh.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
RANDOM_DRIVES ?= 2000
RANDOM_SEED ?= 1
SCHEMAS ?= 3000
VOLUME_STEPS ?= 3000
# Options of a campaign, which begins at case FROM and ends after CASES cases or SECONDS, whichever comes first.
SEED ?= 1
FROM ?= 0
CASES ?= 100000
SECONDS ?= 600
CAMPAIGNS = kill faults flips races change soak power
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)
COMMAND = $(TARGET_DIR)/release/outcore
# The program that `outcore bench`, `replay` and `sim` start.
LAB = $(TARGET_DIR)/release/outcore-lab
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help build demo test docs lint deny wheel release install uninstall fuzz mutations sanitize $(CAMPAIGNS) resume-kills volumes random-drives test-parquet test-tables clean

help:
	@echo 'make demo      generate 1 GiB, sort it in 256 MiB of memory, verify the result, print the speed'
	@echo 'make test      everything that must hold: style, Rust, Python (N passed, N failed, N skipped)'
	@echo 'make docs      the documentation site, into site/ (strict; checked in Chromium if it is installed)'
	@echo 'make lint      style only: rustfmt, clippy, the house rules'
	@echo 'make deny      licences, advisories and versions of all dependencies, and unused dependencies (installs cargo-deny, cargo-machete)'
	@echo 'make build     the commands: $(COMMAND), $(LAB)'
	@echo 'make install   the commands, their man pages and completions, below PREFIX=$(PREFIX)'
	@echo 'make wheel     the Python package, into dist/'
	@echo 'make release   static programs, Debian packages and wheels for x86-64 and aarch64, into dist/ (most of an hour)'
	@echo 'make fuzz      every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) (needs nightly, cargo-fuzz)'
	@echo 'make mutations damaged files and text for the checks of the fuzz targets, without cargo-fuzz (minutes)'
	@echo 'make sanitize  modules with unsafe code or pure logic, under AddressSanitizer and Miri (needs nightly; minutes)'
	@echo 'make volumes   VOLUME_STEPS=$(VOLUME_STEPS) random commands on volumes, disturbed by kills, faults and lost drives (about ten minutes)'
	@echo 'make kill      SIGKILL after an operation of each command that writes; takes SEED=, CASES=, SECONDS= and FROM=, as do the next six'
	@echo 'make faults    EIO or ENOSPC in an operation of each command that writes'
	@echo 'make flips     a flipped bit of a write with --verify-output, or of a read of checksummed data'
	@echo 'make races     two jobs on one output, of any shape'
	@echo 'make change    inputs that change while they are read'
	@echo 'make power     power losses: on drives in memory (CASES), then snapshots of ext4, XFS and btrfs (root)'
	@echo 'make soak      all campaigns above in turn, next to one volume that stays'
	@echo 'make resume-kills  a kill at every operation of small jobs that resume, and at other operations of the runs that continue them (an hour or more)'
	@echo 'make random-drives  RANDOM_DRIVES=$(RANDOM_DRIVES) drives and workloads that nobody would build, in the simulator (minutes)'
	@echo 'make test-parquet  the tests of --features parquet (its library takes a minute or two to compile)'
	@echo 'make test-tables  every job on SCHEMAS=$(SCHEMAS) generated tables, compared with DuckDB and pyarrow (BENCH_PYTHON has both; minutes)'
	@echo 'make bench-quick  five ratios, compared with earlier runs on this processor (three minutes)'
	@echo 'make bench-sort  other sorters and the drive itself, measured here (root; about 25 minutes)'
	@echo 'make bench-primitives  shuffle, lines, map, filter, reduce, scan, gather (root; about 18 minutes)'
	@echo 'make bench-volume  a volume of eight drives, compared with fio and btrfs raid0 (root; about 15 minutes)'
	@echo 'make bench-builds  this build and an older one (OLD=...) by turns on every kind of job (half an hour)'
	@echo 'make bench-fio   outcore bench io and fio on one file of BENCH_DIR (about 5 minutes)'
	@echo 'make bench-plans  predicted and measured seconds of all jobs on throttled drives (root; about 25 minutes)'
	@echo 'make bench-limits  each measure and its bound: floors of the drive, memory, start-up (root; about 13 minutes)'
	@echo 'make bench-graph  graph kernels and a C prototype over the same tiles (about ten minutes)'
	@echo 'make clean     remove what was built, .venv included'

build:
	@scripts/setup.sh rust
	scripts/build.sh --package outcore-cli --package outcore-lab

CAMPAIGN = .venv/bin/python scripts/campaigns.py $@ --command $(TARGET_DIR)/debug/outcore \
	--seed $(SEED) --from $(FROM) --cases $(CASES) --seconds $(SECONDS)

power: LOSSES = OUTCORE_POWER_SEEDS=$(CASES) OUTCORE_POWER_FROM=$(FROM) \
	cargo test --workspace --test engine -- --nocapture power::

$(CAMPAIGNS):
	@scripts/setup.sh
	@cargo build --quiet --package outcore-cli --package outcore-lab
	@VIRTUAL_ENV='$(CURDIR)/.venv' .venv/bin/maturin develop --quiet --manifest-path python/Cargo.toml
	$(LOSSES)
	$(CAMPAIGN)

resume-kills:
	@scripts/setup.sh rust
	RESUME_KILLS=all cargo test --workspace --test command -- resumes

volumes:
	@scripts/setup.sh rust
	VOLUME_STEPS=$(VOLUME_STEPS) VOLUME_SEED=$(RANDOM_SEED) cargo test --workspace --test command -- volume_campaign

# Leaves behind the commands that the README's lines need.
demo: build
	$(COMMAND) demo

test:
	@scripts/setup.sh
	@.venv/bin/python scripts/test.py

# The reference of commands comes from the output of the command; the notebooks run in .venv-docs.
docs:
	@scripts/setup.sh docs
	cargo build --quiet --package outcore-cli --package outcore-lab
	VIRTUAL_ENV='$(CURDIR)/.venv-docs' .venv-docs/bin/maturin develop --quiet --manifest-path python/Cargo.toml
	OUTCORE='$(TARGET_DIR)/debug/outcore' NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	.venv-docs/bin/python scripts/check_site.py

lint:
	@scripts/setup.sh
	@.venv/bin/python scripts/test.py lint

deny:
	@scripts/deny.sh

wheel:
	@scripts/setup.sh
	VIRTUAL_ENV='$(CURDIR)/.venv' .venv/bin/maturin build --release --manifest-path python/Cargo.toml --out dist

release:
	@scripts/setup.sh
	@.venv/bin/python scripts/release.py

install: build
	install -D -m 755 -t '$(DESTDIR)$(PREFIX)/bin' $(COMMAND) $(LAB)
	@scripts/install_docs.sh $(COMMAND) '$(DESTDIR)$(PREFIX)'
	@scripts/install_docs.sh $(LAB) '$(DESTDIR)$(PREFIX)'

uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/outcore' '$(DESTDIR)$(PREFIX)/bin/outcore-lab'
	@scripts/install_docs.sh --remove '$(DESTDIR)$(PREFIX)'

fuzz:
	@scripts/fuzz.sh $(FUZZ_SECONDS)

mutations:
	OUTCORE_MUTATIONS=30000 cargo test --release --package outcore-sim --test sim mutations::
	OUTCORE_MUTATIONS=60000 cargo test --release --package outcore-front --test fuzzed
	OUTCORE_MUTATIONS=60000 cargo test --release --package outcore-graph --test graph fuzzed::
	OUTCORE_MUTATIONS=60000 cargo test --release --package outcore-vector --test vector fuzzed::
	OUTCORE_MUTATIONS=60000 cargo test --release --package outcore-table --test table fuzzed::

sanitize:
	@scripts/sanitize.sh

random-drives:
	OUTCORE_RANDOM_DRIVES=$(RANDOM_DRIVES) OUTCORE_RANDOM_SEED=$(RANDOM_SEED) \
		cargo test --release --package outcore-sim --test sim random_drives::

test-parquet:
	cargo test --package outcore-sim --features parquet --lib requests
	cargo check --package outcore-lab --features parquet

test-tables:
	cargo build --package outcore-cli
	$(BENCH_PYTHON) benches/peers/table_answers.py --outcore $(TARGET_DIR)/debug/outcore --schemas $(SCHEMAS) --seed $(RANDOM_SEED)

clean:
	cargo clean
	rm -rf .venv .venv-docs dist site

-include benches/bench.mk
