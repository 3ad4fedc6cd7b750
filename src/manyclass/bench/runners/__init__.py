"""What runs under a rival's Python, without manyclass: numpy, scipy and the rival only."""
