"""Jobs on generated tables beside what DuckDB and pyarrow answer; see ../table_answers.py."""
