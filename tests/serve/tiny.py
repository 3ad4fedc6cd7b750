"""A tiny text model."""

import json
from pathlib import Path

import numpy as np

from manyclass.cli.main import train

WORDS = {
    "animal": "dog cat horse cow sheep fur tail paw bark milk",
    "vehicle": "car bus train wheel engine road brake driver fuel seat",
    "food": "bread cheese apple soup rice salt oven taste plate lunch",
    "music": "song piano violin drum chord melody choir rhythm tune band",
}


def texts(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Random texts with their labels."""
    rng = np.random.default_rng(seed)
    labels = list(WORDS)
    rows = []
    for _ in range(n):
        label = labels[rng.integers(len(labels))]
        rows.append((" ".join(rng.choice(WORDS[label].split(), 4)), label))
    return rows


def train_model(folder: Path, name: str = "things.model", seed: int = 0, several: bool = False) -> Path:
    """Train a label tree on 400 texts by the command line's own function."""
    data, model = folder / "rows.jsonl", folder / name
    rows = [{"text": text, "label": [label, "any"] if several else label} for text, label in texts(400, seed)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(data=str(data), model=str(model), label="label", text=["text"], feature_bits=12, as_json=True)
    return model
