"""What is left open is chosen from the data."""
