"""Datasets, blobs, the cache and the data streams of one site: what stands behind `adapters/staging/stager.py`."""
