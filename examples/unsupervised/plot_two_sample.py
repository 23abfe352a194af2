"""
Do two samples come from one distribution?
==========================================

``two_sample_test`` compares the means of random features of two tables. It sees any difference of the distributions,
not only of their means, and finds its level by permutations. A small p-value says that the rows differ; the shares of
the columns say where to look.

Here the means and deviations of all columns agree. The third column is one bump in the first sample and two in the
second.

See also :doc:`/unsupervised/tests` and :doc:`/guide/unsupervised`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ttest_ind

from bochner import independence_test, two_sample_test

rng = np.random.default_rng(6)
X, Y = rng.standard_normal((800, 4)), rng.standard_normal((800, 4))
Y[:, 2] = rng.choice([-0.95, 0.95], 800) + np.sqrt(1 - 0.95**2) * rng.standard_normal(
    800
)

found = two_sample_test(X, Y, random_state=0)
found.plot()
plt.show()

# %%
# A t-test of each column sees nothing.
print("p-values of t-tests:", ttest_ind(X, Y).pvalue.round(2))
print("p-value of the test:", found.p_value)

# %%
# ``independence_test`` asks in the same way whether a target depends on any of the columns. The correlation with the
# column that it follows is nearly zero, as the dependence is a parabola.
target = X[:, 1] ** 2 + 0.5 * rng.standard_normal(800)
dependent = independence_test(X, target, random_state=0)
print(
    f"correlation {np.corrcoef(X[:, 1], target)[0, 1]:.2f},",
    f"p-value of the test {dependent.p_value}",
)
dependent.plot()
plt.show()
