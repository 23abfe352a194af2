"""Where sums run. So far on this machine: NumPy, its BLAS, compiled loops, threads."""
