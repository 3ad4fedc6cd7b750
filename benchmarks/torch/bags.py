"""Rows of words and networks that encode them, as accuracy.py uses them."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import nn


class Bags:
    """Rows of weighted words on a device."""

    def __init__(self, word, weight, end, label, device):
        self.word = torch.as_tensor(word.astype(np.int64), device=device)
        self.weight = torch.as_tensor(weight, device=device)
        self.end = torch.as_tensor(end.astype(np.int64), device=device)
        self.begin = nn.functional.pad(self.end[:-1], (1, 0))
        self.label = torch.as_tensor(label.astype(np.int64), device=device)

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, rows: torch.Tensor) -> tuple:
        """The inputs of an encoder for some rows."""
        begin, size = self.begin[rows], self.end[rows] - self.begin[rows]
        offset = size.cumsum(0) - size
        at = torch.repeat_interleave(begin - offset, size)
        at += torch.arange(len(at), device=at.device)
        return self.word[at], offset, self.weight[at]


def load_bags(path: Path, device, most: int | None = None) -> tuple[Bags, Bags, int, int, sp.csr_array]:
    """(training rows, test rows, words, classes, sum of the weighted training rows of each class).

    Words are weighted by log(1 + count) x inverse document frequency, rows scaled to length 1.
    """
    data = np.load(path)
    n_words = int(data["n_words"])
    frequency = np.bincount(data["train_word"], minlength=n_words)
    n_rows = len(data["train_class"])
    inverse = (np.log((1 + n_rows) / (1.0 + frequency)) + 1).astype(np.float32)
    bags, matrices = [], []
    for split in ("train", "test"):
        word, label, end = data[f"{split}_word"], data[f"{split}_class"], data[f"{split}_end"]
        n = len(label) if most is None else min(most, len(label))
        end, label = end[:n], label[:n]
        word, count = word[: end[-1]], data[f"{split}_count"][: end[-1]]
        pointer = np.append(0, end.astype(np.int64))
        weights = np.log1p(count.astype(np.float32)) * inverse[word]
        X = normalize(sp.csr_array((weights, word.astype(np.int64), pointer), shape=(n, n_words)), copy=False)
        matrices.append(X)
        bags.append(Bags(word, X.data, end, label, device))
    n_classes = int(max(data["train_class"].max(), data["test_class"].max())) + 1
    label = bags[0].label.cpu().numpy()
    one_hot = sp.csr_array((np.ones(len(label), np.float32), (label, np.arange(len(label)))), (n_classes, len(label)))
    return bags[0], bags[1], n_words, n_classes, normalize(one_hot @ matrices[0])


class BagEncoder(nn.Module):
    """The weighted sum of word vectors, and one hidden layer."""

    def __init__(self, n_words: int, width: int = 256, out: int = 512):
        super().__init__()
        self.words = nn.EmbeddingBag(n_words, width, mode="sum")
        self.layers = nn.Sequential(
            nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, out), nn.GELU(), nn.LayerNorm(out)
        )
        nn.init.normal_(self.words.weight, std=1.0)

    def forward(self, word, offset, weight):
        """Encode rows."""
        return self.layers(self.words(word, offset, per_sample_weights=weight))


class TextEncoder(nn.Module):
    """An LSTM over words; the state is carried from one block of text to the next."""

    def __init__(self, n_words: int, width: int = 256, out: int = 512):
        super().__init__()
        self.words = nn.Embedding(n_words, width)
        self.lstm = nn.LSTM(width, out, batch_first=True)
        self.layers = nn.Sequential(nn.Dropout(0.1), nn.LayerNorm(out))
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, words, state=None):
        """Encode blocks (stream, word); returns (stream x word, feature) and the state."""
        out, state = self.lstm(self.words(words), state)
        return self.layers(out).flatten(0, 1), state


class FullHead(nn.Module):
    """A linear layer and softmax, with the methods of `TreeHead` that the scripts use."""

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.linear = nn.Linear(in_features, n_classes)

    def forward(self, x, target):
        """Log-probabilities of the targets, and the loss."""
        losses = nn.functional.cross_entropy(self.linear(x).float(), target, reduction="none")
        return -losses.detach(), losses.mean()

    def predict(self, x):
        """The best class of each row."""
        return self.linear(x).argmax(-1)
