"""Tables that are read part by part, as often as is needed: files, folders, arrays,
whatever yields batches.
"""
