"""The claim log of the spawner: the runs it promised to execute, as a file of framed and checksummed records. Records
of claims, starts and ends come in, and a second thread waits for their fsync; at a start the log is read back, and runs
that still live are taken over. The log is rewritten when most of it is forgotten. Read `claimlog.py` first, the file,
then `records.py` and `replay.py`."""
