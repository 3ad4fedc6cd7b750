"""One-against-all in plain numpy, one example at a time: what the kernels must equal."""

import numpy as np

from .recall_tree import Linear, Scale, log_sigmoid, softmax


class OneAgainstAll:
    """All classes up to the highest met so far are scored and learn."""

    def __init__(self, n_features, *, loss="softmax", learner=("sgd", 1.0)):
        self.n_features, self.loss, self.learner = n_features, loss, learner
        self.scale, self.scorers = Scale(n_features), []
        self.mass = self.wrong_mass = 0.0

    def scores(self, x):
        return np.array([scorer.score(x) for scorer in self.scorers])

    def learn(self, x, label, weight=1.0):
        if weight <= 0:
            return
        while len(self.scorers) <= label:
            self.scorers.append(Linear(self.n_features))
        self.scale.observe(x)
        scores = self.scores(x)
        self.mass += weight
        self.wrong_mass += 0.0 if np.argmax(scores) == label else weight
        chances = np.exp(log_sigmoid(scores)) if self.loss == "logistic" else softmax(scores)
        chances[label] -= 1.0
        for scorer, gradient in zip(self.scorers, chances, strict=True):
            scorer.learn(x, gradient * weight, self.learner, self.scale)
