"""What users pass, as estimators learn from it: rows, targets and weights of any
kind, and answers of that kind.
"""
