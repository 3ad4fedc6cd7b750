"""Output layer for PyTorch networks with very many classes: `TreeHead`. Requires PyTorch (extra `[torch]`)."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("manyclass.torch requires PyTorch: pip install 'manyclass[torch]'.") from error

from .head import HeadOutput, TreeHead

__all__ = ["HeadOutput", "TreeHead"]
