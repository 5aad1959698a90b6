"""Simulated sites: the engine the node runs, over the twins, alone or as a pair of replicas."""
