"""Inputs in a job's directory: plain files of its own, or links that are watched."""
