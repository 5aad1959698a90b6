"""Experiments over many runs: comparisons, replays of logs, shrinking of failures."""
