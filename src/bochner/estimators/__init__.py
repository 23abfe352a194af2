"""The scikit-learn faces, and what they are made of."""
