"""Scenario files: reading, importing, expanding and checking them, and the network they describe."""
