"""What a fit will cost: solvers chosen by it, and plans."""
