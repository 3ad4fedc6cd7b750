"""Recall Tree (2017): a tree finds a few candidate classes, one-against-some predictors choose among them."""
