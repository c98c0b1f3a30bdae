"""The sorting benchmark: what bench_sort.py is made of. Python 3.10 or later, standard library only."""
