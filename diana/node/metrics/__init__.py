"""The Prometheus metrics of a node: read where they stand when somebody asks, kept nowhere (docs/metrics.md). A scrape
comes in over the client service or the dashboard; readers ask the engine, the machine and the node's adapters, and one
text goes out. Nothing is loaded before the first scrape. Read `exposing.py` first, one scrape from beginning to end,
then `names.py`, the table of all metrics."""
