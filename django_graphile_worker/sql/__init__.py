"""The SQL of this package: `schema/` is frozen once released, `queries/` lives with the code."""
