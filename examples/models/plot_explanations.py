"""
Why this prediction? Shapley values of single rows
==================================================

``explain`` splits a prediction into a part for each column. The parts sum to the prediction less the mean prediction of
some background rows. For products of factors of the columns, as Fourier features are, they are exact.

On the left each point is a patient: the progression of diabetes within a year, explained by ten measurements. On the
right the steps of one patient, from the mean prediction up to the own one.

:doc:`/guide/explanations` says what each picture means and does not mean.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from bochner import KernelMachineRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = KernelMachineRegressor("gaussian", random_state=0).fit(X[:350], y[:350])
explanation = model.explain(X[350:])
print(explanation)
off = abs(explanation.predictions - model.predict(X[350:])).max()
print(f"sums of the parts differ from the predictions by {off:.1e} at most")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
explanation.plot(ax=axes[0])
explanation.plot(int(explanation.predictions.argmax()), ax=axes[1])
plt.show()

# %%
# Pairs of columns that act together
# ----------------------------------
#
# The interaction of two columns is what they change together beyond what each of them changes alone. A dark square is a
# pair with a large one; a sum of functions of single columns has none.

interactions = model.interactions(X[350:])
for a, b, size in interactions.top_pairs(3):
    print(f"{a} x {b}: {size:.2f}")
interactions.plot()
plt.show()
