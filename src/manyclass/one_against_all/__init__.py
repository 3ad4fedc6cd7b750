"""One-against-all: one linear predictor per class, all of them scored."""
