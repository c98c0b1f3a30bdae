# Benchmarks; included by the main Makefile, whose `build` makes $(COMMAND). They need root for memory limits, dropped
# caches and throttled drives; without it they report what they leave out. BENCH_ARGS is passed to the program:
# make bench-sort BENCH_ARGS='--only 2g --rounds 5'.
BENCH_PYTHON ?= python3
BENCH_SORT := $(BENCH_PYTHON) benches/peers/bench_sort.py --outcore $(COMMAND)
BENCH_PRIMITIVES := $(BENCH_PYTHON) benches/peers/bench_primitives.py --outcore $(COMMAND)

.PHONY: bench-sort bench-sort-quick bench-drives bench-primitives bench-primitives-quick bench-sim bench-predict bench-selftest bench-fio

# Five ratios against floors and peers, with those of earlier runs on this processor: three minutes, 4 GiB of disk.
# `make clean` keeps the history.
BENCH_HISTORY ?= .bench-history.jsonl
.PHONY: bench-quick
bench-quick: build
	$(BENCH_PYTHON) benches/bench_quick.py --outcore $(COMMAND) --dir $(BENCH_DIR) --history $(BENCH_HISTORY) $(BENCH_ARGS)

# Every case at full size: about 25 minutes, 45 GiB of disk, 10 GiB of memory for the drives' images.
bench-sort: build
	$(BENCH_SORT) $(BENCH_ARGS)

# The same at 1/16, once: does everything run?
bench-sort-quick: build
	$(BENCH_SORT) --scale 1/16 --rounds 1 $(BENCH_ARGS)

# Only the scaling over 1, 2, 4 and 8 throttled drives.
bench-drives: build
	$(BENCH_SORT) --only drives $(BENCH_ARGS)

# Shuffle, lines, map, filter, reduce, scan and gather at full size: about 25 minutes, 20 GiB of disk, 13 GiB of memory
# for the drives' images. terashuf: see docs/benchmarks/text.md.
bench-primitives: build
	$(BENCH_PRIMITIVES) $(BENCH_ARGS)

# The same at 1/16, once: does everything run?
bench-primitives-quick: build
	$(BENCH_PRIMITIVES) --quick $(BENCH_ARGS)

# The simulator's event loop compared with MQSim's: MQSIM is a checkout of CMU-SAFARI/MQSim. Three minutes.
bench-sim: build
	$(BENCH_PYTHON) benches/sim_speed.py --mqsim '$(MQSIM)' --outcore $(COMMAND) $(BENCH_ARGS)

# The simulator's results compared with MQSim's on RANDOM_PAIRS drives and workloads drawn at random: four minutes per 100.
RANDOM_PAIRS ?= 100
.PHONY: compare-sim
compare-sim: build
	$(BENCH_PYTHON) benches/sim_random.py --mqsim '$(MQSIM)' --outcore $(COMMAND) --count $(RANDOM_PAIRS) --seed $(RANDOM_SEED) $(BENCH_ARGS)

# A sort on 2, 4 and 8 throttled drives, predicted from its trace on one: two minutes, 4 GiB of memory for the drives' images.
bench-predict: build
	$(BENCH_PYTHON) benches/sim_predict.py --outcore $(COMMAND) $(BENCH_ARGS)

# Predicted seconds of all jobs beside those on 1, 2 and 4 throttled drives: about 25 minutes, 5 GiB of memory.
.PHONY: bench-plans
bench-plans: build
	$(BENCH_PYTHON) benches/bench_plans.py --outcore $(COMMAND) --page docs/benchmarks/plans.md $(BENCH_ARGS)

# The benchmarks' own tests; seconds, standard library only.
bench-selftest:
	$(BENCH_PYTHON) -m unittest discover -s benches/peers/tests -t benches/peers

# A striped volume of eight loop drives and one submitting thread, compared with fio and btrfs raid0: about 15 minutes,
# 7 GiB of memory. BENCH_ARGS=--quick: does everything run?
.PHONY: bench-volume
bench-volume: build
	cargo build --release --package outcore-store --example volume_load --example volume_slow --example volume_depth1
	$(BENCH_PYTHON) benches/volume/bench_volume.py --outcore $(COMMAND) $(BENCH_ARGS)

# Falcon's comparison alone: random and sequential requests on eight loop drives, outcore's volume, fio and btrfs raid0 by
# turns, with the gains of Falcon's paper (ATC 2017): about five minutes.
.PHONY: bench-falcon
bench-falcon:
	$(MAKE) bench-volume BENCH_ARGS='--only unthrottled --seconds 3 $(BENCH_ARGS)'

# `outcore bench io` compared with fio on one file, eleven alternating rounds: about five minutes. The file is in BENCH_DIR.
# Needs fio 3 (Debian: fio).
BENCH_DIR ?= .
bench-fio: build
	$(BENCH_PYTHON) benches/io/against_fio.py $(BENCH_DIR) --outcore $(COMMAND) $(BENCH_ARGS)

# The distance between outcore and its limits: drives, memory, the start of a process; and DuckDB and Miller on CSV and
# JSON lines. BENCH_PYTHON needs numpy and duckdb; needs root. About 13 minutes, 30 GiB of disk, 9 GiB of memory for the drives' images.
.PHONY: bench-limits
bench-limits: build
	$(BENCH_PYTHON) benches/peers/bench_limits.py --outcore $(COMMAND) --dir $(BENCH_DIR) $(BENCH_ARGS)

.PHONY: bench-graph

# Graph kernels compared with a plain C prototype over the same tiles; about ten minutes, 7 GiB of disk.
bench-graph: build
	$(BENCH_PYTHON) benches/peers/bench_graph.py --outcore $(COMMAND) --dir $(BENCH_DIR)/graph $(BENCH_ARGS)

.PHONY: bench-vectors

# Nearest neighbours and k-means compared with faiss, scikit-learn and fio. BENCH_PYTHON is a Python with numpy, faiss-cpu
# and scikit-learn. About 4 minutes, 2 GiB of disk.
bench-vectors: build
	$(BENCH_PYTHON) benches/peers/bench_vectors.py --outcore $(COMMAND) --dir $(BENCH_DIR)/vectors $(BENCH_ARGS)

.PHONY: bench-tables

# Tables compared with DuckDB, Polars and DataFusion. BENCH_PYTHON is a Python with numpy, pyarrow, duckdb, polars and
# datafusion. About 15 minutes, 5 GiB of disk; root for the control group.
bench-tables: build
	$(BENCH_PYTHON) benches/peers/bench_tables.py --outcore $(COMMAND) --dir $(BENCH_DIR)/tables $(BENCH_ARGS)

.PHONY: bench-view

# Sorted views: every measure with its target, and ActiveSort's figure 3; about 14 minutes, 20 GiB of disk, 13 GiB of tmpfs.
bench-view: build
	cargo build --release --package outcore --example view_rates
	$(BENCH_PYTHON) benches/bench_view.py --outcore $(COMMAND) --rates $(TARGET_DIR)/release/examples/view_rates $(BENCH_ARGS)

.PHONY: bench-builds

# Two builds of the command, alternating on every kind of job: OLD is the one to compare with. Half an hour, 12 GiB of disk.
bench-builds: build
	$(BENCH_PYTHON) benches/two_builds.py '$(OLD)' $(COMMAND) $(BENCH_ARGS)
