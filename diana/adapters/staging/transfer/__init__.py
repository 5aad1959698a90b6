"""The streams that move files between sites, and the cache they fill. Wanted files with the sites that hold them come
in; each is fetched from the first source that answers, verified by hash, and put in place whole, going on after a
break. The sending side serves many files over one framed stream, under a cap on bytes per second. Read `sources.py`
first, which chooses among sites, then `client.py` and `service.py`, the two sides of a stream, and `cache.py`."""
