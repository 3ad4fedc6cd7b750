"""Tools for measuring manyclass against other programs, side by side in the same run."""
