"""Ridge regression as estimators ask for it: one problem, one solution, a module for
each way to solve it.
"""
