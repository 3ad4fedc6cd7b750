"""Every public name has an example in its docstring; the examples run as doctests of the modules."""

import importlib
import inspect
import re

import pytest

PUBLIC = ["manyclass", "manyclass.metrics", "manyclass.io", "manyclass.datasets", "manyclass.serve.client"]
CONSTANTS = {"__version__", "COLUMN_KINDS", "DELIMITERS", "FORMATS", "TABLES", "PUBLIC_SETS"}


def documented(name: str) -> list[tuple[str, object]]:
    """The public classes and functions of a module."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [n for n, thing in vars(module).items() if defined(thing, name)]
    return [(n, getattr(module, n)) for n in names if n not in CONSTANTS]


def defined(thing: object, module: str) -> bool:
    return (getattr(thing, "__module__", None) or "").startswith(module) and not getattr(
        thing, "__name__", "_"
    ).startswith("_")


def shown(thing: object) -> str:
    """The lines of the examples of a docstring."""
    return "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) .*$", inspect.getdoc(thing) or "", re.M))


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_an_example(module):
    assert not [name for name, thing in documented(module) if not shown(thing)]


def test_every_method_of_an_estimator_has_an_example():
    """In its own docstring, or in that of its class."""
    without = []
    for name, kind in documented("manyclass"):
        if inspect.isclass(kind) and hasattr(kind, "fit"):
            for method, function in inspect.getmembers(kind, callable):
                called = re.search(rf"[._]{method}(_transform)?\(", shown(kind) + shown(function))
                if not method.startswith("_") and defined(function, "manyclass") and not called:
                    without.append(f"{name}.{method}")
    assert not without
