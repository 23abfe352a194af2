"""What can be learned of rows without targets, by the same maps and sums."""

from bochner.unsupervised.cca import KernelCCA
from bochner.unsupervised.clustering import KernelKMeans, SpectralClustering
from bochner.unsupervised.pca import KernelPCA

__all__ = ["KernelCCA", "KernelKMeans", "KernelPCA", "SpectralClustering"]
