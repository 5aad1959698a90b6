"""The catalogue of a site: registered datasets and their files, whole replicas of other sites' datasets, and the uses
of cached content. Paths of an operator come in and are hashed in batches; references with a proven reader come in, and
an open, checked file goes out or a refusal. It is made for 10^7 files in one SQLite file. Read `catalogue.py` first,
then `registration.py`, which fills it, and `holdings.py`, which serves from it."""
