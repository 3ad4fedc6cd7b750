"""Fitted text vectorizers of scikit-learn as plain values and arrays: a model file holds them without pickle."""

import re
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from .texts import pack_texts, unpack_texts

_ANALYSIS = ("strip_accents", "lowercase", "stop_words", "token_pattern", "ngram_range", "analyzer", "binary")
_OPTIONS: dict[type, tuple[str, ...]] = {  # what `transform` depends on
    CountVectorizer: _ANALYSIS,
    TfidfVectorizer: (*_ANALYSIS, "norm", "use_idf", "smooth_idf", "sublinear_tf"),
    HashingVectorizer: (*_ANALYSIS, "n_features", "norm", "alternate_sign"),
}
_KINDS = {kind.__name__: kind for kind in _OPTIONS}
_MOST_WORDS = 20  # of an n-gram
# Characters or classes of characters, of which only the last is repeated, and \b at the end only with one at the
# beginning: other patterns may take for ever on a text.
_ITEM = r"(?:\\[wWdDsS]|\[\^?(?:\\.|[^\\\[\]])+\]|\w)"
_ITEMS = rf"{_ITEM}+(?:[+*]|\{{\d{{1,2}}(?:,\d{{0,2}})?\}})?"
_SAFE = re.compile(rf"(?:\(\?[aiu]+\))?(\\b)?(?:{_ITEMS}|\({_ITEMS}\))(?(1)(?:\\b)?)")
_LONGEST = 200  # characters of a pattern


def to_values(vectorizer: Any) -> dict[str, Any]:
    """Kind and options as JSON; a ValueError if the vectorizer cannot be stored."""
    kind = type(vectorizer)
    if kind not in _OPTIONS:
        raise ValueError(f"a {kind.__name__} cannot be saved with a model: use {', '.join(_KINDS)}.")
    options = vectorizer.get_params(deep=False)
    code = [name for name in ("preprocessor", "tokenizer", "analyzer") if callable(options[name])]
    if code:
        raise ValueError(f"{code[0]}= of the {kind.__name__} is a function; a model file holds no code. Use options.")
    if options["input"] != "content":
        raise ValueError(f"the {kind.__name__} must read texts: input='content'.")
    stored = {name: options[name] for name in _OPTIONS[kind]}
    if isinstance(stored["stop_words"], (list, set, frozenset)):
        stored["stop_words"] = sorted(stored["stop_words"])
    stored["ngram_range"] = list(stored["ngram_range"])
    _check_pattern(stored)
    return {"kind": kind.__name__, "dtype": np.dtype(options["dtype"]).name, **stored}


def to_arrays(vectorizer: Any) -> dict[str, np.ndarray]:
    """The words in the order of their columns, and their inverse document frequencies."""
    if isinstance(vectorizer, HashingVectorizer):
        return {}
    arrays = {f"words.{name}": array for name, array in pack_texts(vectorizer.get_feature_names_out().tolist()).items()}
    if isinstance(vectorizer, TfidfVectorizer) and vectorizer.use_idf:
        arrays["words.idf"] = vectorizer.idf_.astype(np.float64)
    return arrays


def from_file(values: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The vectorizer; a ValueError if the values or arrays are invalid."""
    kind, options = _KINDS[values["kind"]], {name: values[name] for name in values if name not in ("kind", "dtype")}
    if set(options) != set(_OPTIONS[kind]) or values["dtype"] not in ("float32", "float64", "int64"):
        raise ValueError("the options of the vectorizer are invalid")
    lengths = options["ngram_range"]
    if len(lengths) != 2 or not all(type(n) is int and 1 <= n <= _MOST_WORDS for n in lengths):
        raise ValueError(f"the vectorizer has an ngram_range of {lengths!r}")
    options |= {"ngram_range": tuple(lengths), "dtype": np.dtype(values["dtype"]).type}
    _check_pattern(options)
    if kind is not HashingVectorizer:
        options["vocabulary"] = unpack_texts(arrays["words.bytes"], arrays["words.end"])
    smooth = options.pop("smooth_idf", True)  # without it, scikit-learn would divide by 0 here
    try:
        out = kind(**options).fit([""])  # checks the options; on an empty text, as a pattern could take for ever
    except re.error as error:
        raise ValueError(f"token_pattern of the vectorizer is invalid: {error}") from error
    if kind is TfidfVectorizer:
        out.set_params(smooth_idf=smooth)
    if kind is TfidfVectorizer and out.use_idf:
        idf = arrays["words.idf"]
        if idf.dtype != np.float64 or idf.shape != (len(out.vocabulary_),) or not np.isfinite(idf).all():
            raise ValueError("the weights of words are invalid")
        out.idf_ = idf
    return out


def _check_pattern(options: dict[str, Any]) -> None:
    """ValueError unless words are found in time proportional to the text."""
    pattern = options["token_pattern"]
    safe = isinstance(pattern, str) and len(pattern) <= _LONGEST and _SAFE.fullmatch(pattern)
    if options["analyzer"] == "word" and not safe:
        raise ValueError(
            f"token_pattern={pattern!r} of the vectorizer is not allowed in a model file. Use a sequence of characters "
            r"or classes such as \w, \S or [a-z], of which only the last is repeated, possibly between two \b."
        )


def width_of(vectorizer: Any) -> int:
    """The number of features."""
    return vectorizer.n_features if isinstance(vectorizer, HashingVectorizer) else len(vectorizer.vocabulary_)
