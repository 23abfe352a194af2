"""The rows of a source seen through a feature map, and what can be summed over them."""
