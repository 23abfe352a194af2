"""What a fit will do: solvers chosen by their costs, and plans."""
