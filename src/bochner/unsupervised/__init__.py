"""What can be learned of rows without targets, by the same maps and sums."""
