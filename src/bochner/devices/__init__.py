"""Arrays of other libraries, and on other devices, by the array API standard; needs the extra `arrays`.

A device is used by the parts that take most of the time: dense features, their Gram matrix, products with them. All
else, and all that a model keeps, are arrays of NumPy.
"""
