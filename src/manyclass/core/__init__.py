"""Code shared by several algorithms: arrays, linear predictors, input batches, the base estimator, model files."""
