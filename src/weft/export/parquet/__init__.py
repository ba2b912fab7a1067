"""Export to Parquet: a folder of tables."""

from weft.export.format import Format

FORMAT = Format("a folder of tables for pandas, Polars, DuckDB and all that reads Parquet", ".parquet", ("pyarrow",))
