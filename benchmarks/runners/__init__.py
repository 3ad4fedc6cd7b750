"""What runs under a peer's Python, without manyclass: numpy, scipy and the peer only."""
