"""The report of a run: figures, flows, drawings, tables."""
