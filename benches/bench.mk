# Benchmarks; included by the main Makefile, whose `build` makes $(COMMAND). They need root for memory limits, dropped
# caches and throttled drives, and say what they leave out without it. BENCH_ARGS goes to the program:
# make bench-sort BENCH_ARGS='--only 2g --rounds 5'.
BENCH_PYTHON ?= python3
BENCH_SORT := $(BENCH_PYTHON) benches/peers/bench_sort.py --outcore $(COMMAND)

.PHONY: bench-sort bench-sort-quick bench-drives bench-selftest

# Every case at full size: about 25 minutes, 45 GiB of disk, 10 GiB of memory for the drives' images.
bench-sort: build
	$(BENCH_SORT) $(BENCH_ARGS)

# The same at 1/16, once: does everything run?
bench-sort-quick: build
	$(BENCH_SORT) --scale 1/16 --rounds 1 $(BENCH_ARGS)

# Only the scaling over 1, 2, 4 and 8 throttled drives.
bench-drives: build
	$(BENCH_SORT) --only drives $(BENCH_ARGS)

# The benchmark's own tests; seconds, standard library only.
bench-selftest:
	$(BENCH_PYTHON) -m unittest discover -s benches/peers/tests -t benches/peers
