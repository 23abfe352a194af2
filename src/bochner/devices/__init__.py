"""Arrays of other libraries, which are taken as NumPy's, and devices of PyTorch.

A device is used by the parts that take most of the time: dense features, their Gram
matrix, products with them. All else, and all that a model keeps, are arrays of NumPy.
"""
