"""Small algebra on reduced statistics."""
