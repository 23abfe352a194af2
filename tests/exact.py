"""Oracles too slow to be wrong: NumPy and the standard library only, nothing
imported from bochner.
"""

import itertools
import math

import numpy as np

# Kernels as functions of the difference of two rows, delta of shape (d,).


def gaussian(delta, lengthscale=1.0):
    return math.exp(-0.5 * sum(t * t for t in delta / lengthscale))


def laplacian(delta, lengthscale=1.0):
    return math.exp(-sum(abs(t) for t in delta / lengthscale))


def cauchy(delta, lengthscale=1.0):
    return math.prod(1 / (1 + t * t) for t in delta / lengthscale)


def hat(delta, lengthscale=1.0):
    return math.prod(max(0.0, 1 - abs(t)) for t in delta / lengthscale)


def smooth_bins(delta, lengthscale=1.0):
    """Mean of rho(sqrt(3) t / pitch) over pitches of a Gamma(7) law, by
    Gauss-Legendre on 80 units beyond t.
    """
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def one(t):
        pitch = t + 40 * (nodes + 1)
        s = t / pitch
        return (
            40
            * weights
            @ ((1 - s) ** 3 * (1 + 3 * s + s**2) * pitch**6 * np.exp(-pitch) / 720)
        )

    return math.prod(one(math.sqrt(3) * abs(t)) for t in delta / lengthscale)


def rational_quadratic(delta, lengthscale=1.0, alpha=1.0):
    return (1 + sum(t * t for t in delta / lengthscale) / (2 * alpha)) ** -alpha


def matern(delta, lengthscale=1.0, nu=1.5):
    """By K_nu(s) = integral over t > 0 of exp(-s cosh t) cosh(nu t); the trapezoidal
    rule converges geometrically.
    """
    if nu == math.inf:
        return gaussian(delta, lengthscale)
    r = math.sqrt(sum(t * t for t in delta / lengthscale))
    if r == 0:
        return 1.0
    s = math.sqrt(2 * nu) * r
    t = np.linspace(0, 40, 16001)
    logs = -s * np.cosh(t) + np.logaddexp(nu * t, -nu * t) - math.log(2)
    top = logs.max()
    weights = np.full(len(t), t[1])
    weights[0] /= 2
    log_bessel = top + math.log(np.exp(logs - top) @ weights)
    return math.exp(
        (1 - nu) * math.log(2) - math.lgamma(nu) + nu * math.log(s) + log_bessel
    )


def student_t(delta, lengthscale=1.0, nu=1.0):
    return (1 + sum(t * t for t in delta / lengthscale) / nu) ** (-(nu + 1) / 2)


def power_exponential(delta, lengthscale=1.0, power=1.0):
    return math.exp(-(math.sqrt(sum(t * t for t in delta / lengthscale)) ** power))


def gabor(delta, lengthscale=1.0, frequency=0.0):
    return gaussian(delta, lengthscale) * math.cos(2 * math.pi * sum(delta * frequency))


def spectral_mixture(delta, weights, means, scales):
    """The transform of sum_q w_q [N(mu_q, v_q) + N(-mu_q, v_q)] / 2, frequencies in
    cycles (Wilson and Adams, 2013).
    """
    return sum(
        w
        * math.exp(-2 * math.pi**2 * sum((delta * v) ** 2))
        * math.cos(2 * math.pi * sum(delta * m))
        for w, m, v in zip(weights, means, scales, strict=True)
    )


def periodic(delta, lengthscale=1.0, period=1.0):
    return math.prod(
        math.exp(-2 * math.sin(math.pi * t) ** 2 / lengthscale**2)
        for t in delta / period
    )


def hamming(delta, lengthscale=1.0):
    return math.exp(-sum((delta != 0) / lengthscale))


def gram(kernel, X, Y):
    return np.array([[kernel(x - y) for y in Y] for x in X])


# Ridge regression with an unpenalised intercept. Z: (n, D), Y: (n, K).


def ridge(Z, Y, alpha, weight=None):
    """Coefficients (D, K) and intercepts (K,), by least squares on rows augmented
    with sqrt(alpha) I.
    """
    n, D = Z.shape
    root = np.ones(n) if weight is None else np.sqrt(weight)
    above = np.hstack([Z, np.ones((n, 1))]) * root[:, None]
    below = np.hstack([math.sqrt(alpha) * np.eye(D), np.zeros((D, 1))])
    targets = np.vstack([Y * root[:, None], np.zeros((D, Y.shape[1]))])
    solution = np.linalg.lstsq(np.vstack([above, below]), targets, rcond=None)[0]
    return solution[:D], solution[D]


def hat_matrix(Z, alpha, weight=None):
    """H with fitted values H Y, column by column from unit targets."""
    coef, intercept = ridge(Z, np.eye(len(Z)), alpha, weight)
    return Z @ coef + intercept


def leave_one_out(Z, Y, alpha, weight=None):
    """Prediction of every row by a fit without that row; shape (n, K)."""
    weight = np.ones(len(Z)) if weight is None else np.asarray(weight, dtype=float)
    predictions = []
    for i in range(len(Z)):
        left = weight.copy()
        left[i] = 0
        coef, intercept = ridge(Z, Y, alpha, left)
        predictions.append(Z[i] @ coef + intercept)
    return np.array(predictions)


def gcv(Z, Y, alpha, weight=None):
    """Mean squared residual over (1 - trace(H) / n)^2, summed over the outputs."""
    weight = np.ones(len(Z)) if weight is None else weight
    H = hat_matrix(Z, alpha, weight)
    rows = np.count_nonzero(weight)
    residual = (weight[:, None] * (Y - H @ Y) ** 2).sum() / weight.sum()
    return residual / (1 - np.trace(H) / rows) ** 2


def centred_moments(Z, Y, weight):
    """Z'WZ, Z'WY and the diagonal of Y'WY about the weighted means, with the means."""
    feature_mean, target_mean = (
        np.average(Z, axis=0, weights=weight),
        np.average(Y, axis=0, weights=weight),
    )
    A, B = Z - feature_mean, Y - target_mean
    return (
        (A.T * weight) @ A,
        (A.T * weight) @ B,
        weight @ B**2,
        feature_mean,
        target_mean,
    )


# Random binning features. pitches, shifts: (P, F, d); values: (P,); smooth: (P, F).


def places(X, pitches, shifts):
    """Rows in units of the pitches, of shape (P, n, F, d); as far as 2^62 units."""
    with np.errstate(over="ignore"):
        t = (
            np.asarray(X, dtype=float)[:, None, :] * (1 / pitches)[:, None]
            - (shifts / pitches)[:, None]
        )
    return np.clip(t, -(2.0**62), 2.0**62)


def binning(train, X, pitches, shifts, values, smooth=None):
    """Dense features: by grid, one column for each cell in which there is a training
    row, in the order of the rows.
    """
    blocks = []
    for p in range(len(values)):
        grid = pitches[p : p + 1], shifts[p : p + 1]
        numbers = {}
        for cell in map(
            tuple, np.floor(places(train, *grid))[0].reshape(len(train), -1)
        ):
            numbers.setdefault(cell, len(numbers))
        t = places(X, *grid)[0]
        block = np.zeros((len(t), len(numbers)))
        for i, cell in enumerate(map(tuple, np.floor(t).reshape(len(t), -1))):
            if cell in numbers:
                chosen = np.isfinite(pitches[p]) & np.reshape(
                    False if smooth is None else smooth[p], (-1, 1)
                )
                s = (t[i] - np.floor(t[i]))[chosen]
                block[i, numbers[cell]] = values[p] * np.prod(
                    math.sqrt(30) * s * (1 - s)
                )
        blocks.append(block)
    return np.hstack(blocks)


def shapley(value, d):
    """Shapley values of a game of d players, whose value is a function of a tuple of
    d flags, by all coalitions.
    """
    values = {flags: value(flags) for flags in itertools.product((0, 1), repeat=d)}
    total = [0.0] * d
    for flags, without in values.items():
        for k in range(d):
            if not flags[k]:
                size = sum(flags)
                share = (
                    math.factorial(size)
                    * math.factorial(d - size - 1)
                    / math.factorial(d)
                )
                total[k] += share * (values[(*flags[:k], 1, *flags[k + 1 :])] - without)
    return np.array(total)


def shapley_interactions(value, d):
    """Interactions of all pairs of the players of a game, shape (d, d), by all
    coalitions; zeros on the diagonal.
    """
    total = np.zeros((d, d))
    for flags in itertools.product((0, 1), repeat=d):
        for j, k in itertools.combinations(range(d), 2):
            if not (flags[j] or flags[k]):
                size, change = sum(flags), 0.0
                for a, b in itertools.product((0, 1), repeat=2):
                    own = list(flags)
                    own[j], own[k] = a, b
                    change += (1 if a == b else -1) * value(tuple(own))
                share = (
                    math.factorial(size)
                    * math.factorial(d - size - 2)
                    / math.factorial(d - 1)
                )
                total[j, k] += share * change
                total[k, j] += share * change
    return total
