"""The package without PyTorch."""

import subprocess
import sys


def test_the_package_imports_without_pytorch():
    program = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, NoTorch())
import manyclass
manyclass.LabelTreeClassifier
try:
    import manyclass.torch
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "manyclass.torch requires PyTorch: pip install 'manyclass[torch]'."
