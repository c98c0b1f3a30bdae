"""Compares jobs on generated tables with the answers of DuckDB and pyarrow; see ../table_answers.py."""
