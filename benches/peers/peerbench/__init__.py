"""The sorting benchmark: the modules of bench_sort.py. Python 3.10 or later, standard library only."""
