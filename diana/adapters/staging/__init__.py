"""Datasets, blobs, the cache and the data streams of one site: what stands behind `adapters/stager.py`."""
