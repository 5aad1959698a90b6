"""Simulated twins of the adapters: network, LRM, batch system, stager, store, keyring."""
