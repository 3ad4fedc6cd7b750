"""Online tree (2013) and LOM tree: one path to one leaf, learned online."""
