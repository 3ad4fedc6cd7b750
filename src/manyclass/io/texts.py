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
