"""The load of a run: groups that users submit, jobs of others, drawn by the seed or read from logs."""
