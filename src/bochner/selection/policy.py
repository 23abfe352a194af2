"""The tuned constants of what is chosen inside a fit, each with what it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Numbers = tuple[float, ...]
Range = tuple[int, int]


@dataclass(frozen=True)
class Policy:
    """Tuned constants of model selection; pairs are the least and the most."""

    # Validation rows.
    # Distinct rows of a fit, without which what was asked for is not learned either
    fewest_asked_rows: int = 20
    # Of numbers, by which lengthscales of each column are compared with one of all
    fewest_learned: int = 100
    # Folds of small tables, and the fewest rows that tell a lengthscale; larger tables
    # hold out 1 / n_folds of the rows, once
    n_folds: int = 5
    # Rows held out, fewer of which choose by chance and measure no importance
    fewest_evaluated: int = 50
    # Up to which all rows are held out in turn: few would be left to validate
    folded_rows: int = 5_000
    growth: int = 4  # ratio of the grids of a larger fit to those of a trial
    # Standard errors of a paired gain, from which it is no chance: the usual kind of
    # candidate, and the mean of the targets, are left for such a gain alone
    certain: float = 2.0
    # Standard errors of a paired gain in the roots of losses, from which a model is
    # better than a simple one whatever few large losses say
    certain_roots: float = 2.5
    clear: float = 0.5  # standard errors of a paired gain, from which it counts
    # Of the logistic link, of which the best is taken
    slopes: Numbers = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
    # Outputs, beyond which random combinations of them are validated, if rows are many
    mixed_outputs: int = 16
    mixtures: int = 8  # such combinations
    # Up to which simple candidates are preferred, and classes have the squared loss
    simple_rows: int = 1_000
    near: float = 1.0  # standard errors, within which candidates are near
    # Most steps: of a search of a lengthscale, a size or a ridge penalty from its start
    # or from one; of sweeps over the grids, and of Newton's method
    most_steps: int = 16

    # Rows that are read from files.
    # Up to which all are read into memory, and fitted there
    gathered_rows: int = 1 << 22
    # Most numbers of the rows that are read so; a sample has as much fewer as its rows
    gathered_entries: int = 1 << 27
    # On which choices are made, and candidates fitted, where there are more
    sampled_rows: int = 1 << 20
    hashed_columns: int = 12_800  # of bins in buckets, whose Gram matrix takes 1.3 GB

    # Which way a fit goes, by its rows and columns.
    # Fewer have shorter learning, and no random halves
    rows_for_full_learning: int = 2_000
    # Rows, beyond which candidates are compared on some of them
    most_raced: int = 200_000
    # On which candidates are compared there, and metrics are learned; from which on
    # these are learned on near rows alone
    raced_rows: int = 100_000
    # Columns, beyond which a common unit is tried, where they have one as pixels have,
    # and then no linear model; bins have no linear map, nor bins of single columns
    # beside them; and linear models of classes are compared by the squared loss.
    # Features, up to which losses of classes together are not minimised by Newton's
    # method
    wide: int = 128
    # Of the columns beside one, that must count in their common unit for it to be tried
    # beside learned ones, and to be preferred for few rows
    alike: float = 0.2

    # A time limit.
    # Seconds, below which one metric is learned of enough rows for full learning, and
    # what follows the solution has smaller sizes
    short_limit: float = 1.5
    # Proportions in which the time left is divided among the stages of a fit to come
    stages: dict[str, float] = field(
        default_factory=lambda: {
            "learning": 4.0,
            "trials": 2.0,
            "solution": 4.0,
            "loss": 3.0,
            "intervals": 1.0,
            "deviations": 2.0,
            "calibration": 1.0,
        }
    )
    # Numbers of the rows of a fit, inputs and targets, for each second of the limit
    timed_cells: float = 5e6

    # The learning of a metric.
    window: int = 48  # blocks, whose losses tell whether the learning goes on
    falling: float = 0.02  # by what share they must fall from one window to the next
    fit_share: float = 0.75  # of a block, the rest of which validates
    wide_neighbours: int = 8  # blocks among whose nearest rows one is drawn
    rate: float = 0.15  # of Adam, on logarithms of scales
    betas: tuple[float, float] = (0.9, 0.97)  # fast ones, for hundreds of steps
    # Bounds of scales, of which the least switches a column off, of the ridge penalties
    # of blocks, and of the sizes that each kind of blocks has of its own
    log_scales: tuple[float, float] = (-9.0, 9.0)
    n_knots: int = 256  # of a column's rank function
    principal: int = 50  # components that have scales of their own

    # Conjugate gradients and ridge penalties on rows that are held out.
    patience: int = 3  # iterations, or steps of another loss, without a worthwhile gain
    worthwhile: float = 1e-3  # of the loss
    # Iterations for bins at the most, which are regularised by stopping: they end early
    # where the loss stalls, and the best of them is taken
    traced_iterations: int = 48
    most_iterations: int = 500  # to a tolerance of 1e-2; a smaller one has more
    # Times the kernel's variance and what a distinct row weighs; as far as for no noise
    bin_alphas: Numbers = (1e-4, 0.01, 0.1, 0.3, 1.0, 10.0)
    # Columns of sparse rows, beyond which a linear model alone is fitted
    most_sparse_columns: int = 1_000
    # Ridge penalties that are tried for it, times what a distinct row weighs
    sparse_alphas: Numbers = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    smallest_share: float = 1e-8  # that is tried too, where many rows tell small errors
    # Of the trace of the Gram matrix
    shares: Numbers = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)
    # Rows held out at the most, which tell log losses to a percent; on which ridge
    # penalties are compared; that tell quantiles of a column and of distances; and
    # columns of rows that are changed for the importance of all columns
    compared_rows: int = 10_000
    # Factors that are tried for a map side by side with others
    weight_steps: Numbers = (0.1, 10.0)
    resumed_steps: int = 2  # on all rows, after those without the rows held out
    # Over rows that are not in memory, for another loss than the squared one; and
    # iterations of conjugate gradients in each, where rows held out tell how many there
    # are
    most_passes: int = 4
    # Rows times classes times grids, up to which losses are compared by default, and
    # ridge penalties of sweeps
    most_compared: float = 2e8
    dense_work: float = 0.03  # of a dense feature over that of a grid
    # Ratio of the ridge penalties of the logistic loss that are tried
    penalty_step: float = 10**0.5
    # Of these for dense features and a row, whose scores have a deviation of 2 with it
    least_unit: float = 0.3
    # Lengthscales of the bins of single columns, in mean distances
    additive_scales: Numbers = (0.25, 0.0625, 1.0)
    additive_weight: float = 64.0  # of their kernel

    # Bins.
    trial_entries: int = 2_000_000  # bins of a trial: a tenth of a second
    # Of a trial, however many rows there are; the most also tell a lengthscale, and the
    # ridge penalty of another loss
    trial_grids: Range = (6, 64)
    # Bins of the model, over the root of the number of its outputs; of all these, from
    # which on bins are tried on request; and numbers of the rows that a metric is
    # learned from, 200 MB, or that choose one lengthscale
    final_entries: int = 50_000_000
    final_grids: Range = (50, 800)  # of the model, however many rows there are
    # Times what a distinct row weighs: in a trial, of a block at the first step of a
    # metric, and of the first sweeps for another loss
    first_alpha: float = 0.1
    # Iterations of a trial, and the fewest of the run that tells their final number and
    # of the learning of a metric, also where no time is left
    trial_steps: int = 8

    # Fourier features.
    # On which they are compared; beyond which more rows hardly have more bins; and up
    # to which a fit with given splits is repeated for intervals
    screened_rows: int = 50_000
    # However much they pay, as the Gram matrix takes half a gigabyte; and encoded
    # columns, beyond which no metric is learned
    most_features: int = 8_192
    rows_a_feature: int = 4  # from which on more features are tried
    # Of a memory limit, for the Gram matrix of features whose number is chosen
    limited_share: float = 0.4
    # Of the limit, that libraries and compiled code take before
    loaded_bytes: int = 150_000_000
    # Errors, of fewer of which one scale is learned for all columns. With 1,000 here
    # intervals are a fifth wider where one column alone moves the noise
    fewest_scale_rows: int = 750
    # Memory of a bin of a row, with what solvers and candidates make of it
    bin_bytes: int = 48
    # Shares of the loss: twice the features, or another loss of bins in passes over
    # files, are taken where they lower it below the first one, four times the features
    # where below the second one
    pays: tuple[float, float] = (0.97, 0.90)
    # Ratio of the grids beside them in a trial to those of other trials: with as few
    # the model of Fourier features alone seems better
    hybrid_growth: int = 2
    hybrid_features: int = 1_000  # beside the bins, however few rows there are
    # Ridge penalties of the Fourier features beside bins, each with that of the bins
    hybrid_alphas: tuple[Numbers, ...] = ((0.1, 0.3), (0.01, 0.3), (1.0, 10.0))

    # One lengthscale.
    step: float = 1.5  # ratio of one lengthscale to the next
    afar: tuple[int, ...] = (0, -4, 4, -8)  # steps at which is looked first
    # Rows and features of the trials
    rounds: tuple[Range, Range] = ((4_096, 512), (16_384, 1_024))
    quick_round: Range = (1_024, 128)  # rows and features where one look is enough

    # Few rows, on which everything is chosen again without each fold, for the errors of
    # new ones.
    # Distinct ones at most; of more a fifth of the rows is set aside
    crossed_rows: int = 500
    # Folds of up to `few_rows` distinct rows, and of more
    crossed_folds: tuple[int, int] = (10, 5)

    # Few rows, by leave-one-out errors.
    # Distinct ones, up to which nothing is learned that was not asked for
    few_rows: int = 250
    searched_rows: int = 400  # of them, that choose a lengthscale
    # Of lengthscales at which is looked first
    few_powers: Numbers = (-6.0, -3.0, 0.0, 3.0, 6.0)
    # Centre and deviation of the prior weights of lengthscales, in those powers
    few_power: tuple[float, float] = (-0.5, 1.5)
    # Ridge penalties over the kernel's mean eigenvalue
    few_shares: Numbers = tuple(np.geomspace(1e-10, 10.0, 23))
    # Centre of the prior weights of those penalties, and a factor as deviation
    few_share: tuple[float, float] = (0.1, 30.0)
    few_doublings: int = 5  # slopes 1, 2, ..., 16, and one and a half times these

    # Sizes that are not learned.
    # Fourier features. The least is also that of a fit of very many rows, of the model
    # of the size of errors, of rows and landmarks under a limit, the most of a trial,
    # and up to which one factorisation serves all ridge penalties
    n_components: Range = (512, 2_048)
    gram_seconds: float = 10.0  # of all rows
    n_grids: Range = (50, 200)  # of bins
    # Of the Gram matrix in single precision, up to which double precision is taken
    double_seconds: float = 0.15


POLICY = Policy()
