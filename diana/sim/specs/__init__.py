"""The values of a scenario file, a struct per table; they know nothing of files or runs."""
