"""What work costs, in seconds, by which ways to do it are compared and sizes are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Seconds on two cores with AVX-512, in single precision; double precision takes twice as long.

    Attributes
    ----------
    gram : float
        A multiplication and addition of Z'Z, of which n rows of D features take n D^2: 174 GFLOP/s, counted so.
    product : float
        One of a product of two matrices, with what is around it in a solver.
    reduction : float
        One of the reduction to a tridiagonal matrix, which takes 4/3 D^3 and is bound by memory.
    feature : float
        A Fourier feature of a row, projection included.
    byte_pass, float_pass : float
        An entry, there and back for one vector, of stored features of 8 bits and of 32: 0.25 ns a core and pass.
    factor_entry : float
        An entry of a preconditioner's factors, there and back for one vector.
    gradient_step : float
        A step of the learning of a metric on 512 rows of few columns; of 30 columns it takes twice as long.
    """

    gram: float = 5e-12
    product: float = 6e-12
    reduction: float = 4e-11
    feature: float = 6e-10
    byte_pass: float = 5e-11
    float_pass: float = 4e-10
    factor_entry: float = 4e-10
    gradient_step: float = 1e-3

    def gram_work(self, seconds: float) -> float:
        """The n D^2 for which there are so many seconds."""
        return seconds / self.gram


COSTS = Costs()
