"""Label tree: a wide tree over groups of similar labels, for sparse text."""
