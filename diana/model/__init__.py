"""Frozen values that every layer shares: ids, index sets, specs, facts."""
