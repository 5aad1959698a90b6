"""Datasets and outputs as the engine knows them: names, sizes and orders to the stager, never file contents. Users'
orders to add or remove a dataset come in, results that name output files, and the stager's answers. Out go `Gather`
orders that bring outputs to the origin, orders that register a group's outputs as a dataset, and the records of both.
`stage_book.py` keeps the inputs that are on their way and the jobs that wait for them. Read `outputs.py` first."""
