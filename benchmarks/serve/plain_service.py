"""What one would write in an hour: FastAPI around a scikit-learn pipeline, which predicts the label of the nearest row.

A linear model of scikit-learn has a dense weight for each class and word: 100,000 classes would take hundreds of GB.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.serve.running import LOCAL, texts


class Row(BaseModel):
    """A request."""

    text: str
    k: int = 5


def main(port: int, n_classes: int) -> None:
    """Train on the rows of the other services, and serve."""
    rows = list(texts(4 * n_classes, n_classes, 0))
    neighbours = KNeighborsClassifier(1, metric="cosine", algorithm="brute")
    model = make_pipeline(TfidfVectorizer(), neighbours).fit([text for text, _ in rows], [label for _, label in rows])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        print("ready", flush=True)
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/predict")
    def predict(row: Row) -> dict:
        return {"labels": model.predict([row.text]).tolist()}

    uvicorn.run(app, host=LOCAL, port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
