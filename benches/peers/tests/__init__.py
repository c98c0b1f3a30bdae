"""Tests of the benchmark itself: `make bench-selftest`."""
