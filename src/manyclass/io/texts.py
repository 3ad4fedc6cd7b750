"""Lists of texts as arrays, as model files hold them."""

import numpy as np


def pack_texts(texts: list[str]) -> dict[str, np.ndarray]:
    """Texts as two arrays: all their bytes, and where each text ends."""
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        "bytes": np.array(memoryview(b"".join(raw)), np.uint8),
        "end": np.cumsum([len(one) for one in raw], dtype=np.int64),
    }


def unpack_texts(packed: np.ndarray, ends: np.ndarray) -> list[str]:
    """The texts of `pack_texts`; a ValueError if the arrays do not contain texts."""
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    if len(ends) and (ends[-1] != len(packed) or (ends < begins).any() or ends[0] < 0):
        raise ValueError("the texts are not where they should be")
    raw = packed.tobytes()
    return [raw[begin:end].decode("utf-8", "surrogatepass") for begin, end in zip(begins, ends, strict=True)]


def find_text(packed: np.ndarray, ends: np.ndarray, text: str) -> np.ndarray:
    """The numbers of the texts of `pack_texts` that are equal to a text."""
    raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    begins = np.concatenate([[0], ends[:-1]])
    same = np.flatnonzero(ends - begins == len(raw))
    return same[(packed[begins[same, None] + np.arange(len(raw))] == raw).all(axis=1)]


def replace_text(packed: np.ndarray, ends: np.ndarray, number: int, text: str) -> tuple[np.ndarray, np.ndarray]:
    """The arrays of `pack_texts` with another text in one place."""
    raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    begin, end = int(ends[number - 1]) if number else 0, int(ends[number])
    moved = np.where(np.arange(len(ends)) >= number, len(raw) - (end - begin), 0)
    return np.concatenate([packed[:begin], raw, packed[end:]]), ends + moved
