"""Python functions as jobs: `GridExecutor`, a `concurrent.futures.Executor` whose workers are the sites of a VO.

    executor.py   what a user calls
    gathering.py  calls on their way: single ones wait a moment for company, then they are a group
    driving.py    the thread that sends groups and follows them
    packing.py    calls into one file, outcomes out of the jobs' files
    remote.py     what runs in each job; it travels along

No node ever unpickles anything: what a user packed is unpacked in her own jobs, and what those return, at her own
client. That trusts the sites she lets them run at (docs/python.md).
"""
