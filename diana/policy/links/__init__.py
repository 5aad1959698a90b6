"""Forecasts of the links between sites. Measured samples of throughput and round trips come in, from probes and from
real transfers; out go a forecast with its past error, and shortest or widest paths over many links. A sample costs the
same however many came before. Read `forecast.py` first, which the engine's link book uses; `sharing.py` turns
concurrent transfers into samples, and `graph.py` serves `diana links`."""
