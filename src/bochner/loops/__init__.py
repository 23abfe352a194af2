"""Compiled inner loops: plain arrays in, plain arrays out.

Importing a module of this package imports Numba (0.4 s), so callers import it where
they use it; all but the `clock`.
"""
