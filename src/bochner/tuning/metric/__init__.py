"""Distances that are learned: scales of columns, monotone warps, linear maps."""
