"""
Learning from few labels
========================

Labels are often dear, and rows without labels cheap. ``SemiSupervisedClassifier`` lets the labels spread over a graph
of all rows: rows near each other share landmarks, and get the same label.

Of 1,797 handwritten digits 30 have a label, three of each class. The picture shows the digits by two components.
Colours and shapes tell the predicted classes, and large marks the rows with a label. Rows that fade are uncertain:
label some of these next. A support vector machine that sees the labelled rows only is wrong more than twice as often.

See also :doc:`/unsupervised/semisupervised`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from bochner import SemiSupervisedClassifier
from bochner.display import LabelDisplay

X, digits = load_digits(return_X_y=True)
labelled = np.concatenate([np.flatnonzero(digits == digit)[:3] for digit in range(10)])
y = np.full(len(digits), -1)
y[labelled] = digits[labelled]

model = SemiSupervisedClassifier(random_state=0).fit(X, y)
alone = SVC(C=10.0).fit(X[labelled], digits[labelled])
print(f"semi-supervised: {100 * np.mean(model.transduction_ != digits):.1f} % wrong")
print(f"labelled rows only: {100 * np.mean(alone.predict(X) != digits):.1f} % wrong")

LabelDisplay.from_estimator(model, X, y).plot()
plt.show()
