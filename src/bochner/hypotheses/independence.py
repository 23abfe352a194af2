"""Whether the rows of two tables depend on each other."""
def independence_test(): pass
