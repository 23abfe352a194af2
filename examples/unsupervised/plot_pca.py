"""
Kernel principal components of digits
=====================================

``KernelPCA`` finds the directions of largest variance in the space of random features. It needs one pass over the
rows, and new rows have scores at the cost of a matrix product.

The first picture shows handwritten digits by their first two components, the second one the share of the variance that
each of 20 components has. Going back from the scores to pixels, the third one, removes noise: what is not in the
components is left out.

See also :doc:`/unsupervised/components`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bochner import KernelPCA
from bochner.display import EmbeddingDisplay, ScreeDisplay

X, y = load_digits(return_X_y=True)
model = KernelPCA(n_components=20, fit_inverse_transform=True, random_state=0).fit(X)

EmbeddingDisplay.from_estimator(model, X, y).plot()
plt.show()

# %%
ScreeDisplay.from_estimator(model).plot()
plt.show()

# %%
# Above digits with noise, below their images after the way to 20 components and back.
noisy = X[:10] + np.random.default_rng(0).normal(0, 4, X[:10].shape)
clean = model.inverse_transform(model.transform(noisy))
figure, axes = plt.subplots(2, 10, figsize=(7, 1.6), layout="constrained")
for column, images in zip(axes.T, zip(noisy, clean, strict=True), strict=True):
    for ax, image in zip(column, images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
        ax.set_axis_off()
plt.show()
