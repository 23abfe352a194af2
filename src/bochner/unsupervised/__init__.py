"""What can be learned of rows without targets, by the same maps and sums."""

from bochner.unsupervised.clustering import KernelKMeans, SpectralClustering

__all__ = ["KernelKMeans", "SpectralClustering"]
