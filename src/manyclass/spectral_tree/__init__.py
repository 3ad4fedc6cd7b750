"""Hierarchical spectral tree (2015): a tree of eigenvector splits selects candidates for a linear classifier."""
