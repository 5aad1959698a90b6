"""The verbs that look at a site's surroundings: datasets, links between sites, metrics, and the way to the dashboard.
One call to the node goes out per look, and a table, a text or JSON is printed; `diana datasets` also registers, checks
and forgets datasets. A browser or a collector gets a token from the dashboard's verb. Read `datasets.py` first."""
