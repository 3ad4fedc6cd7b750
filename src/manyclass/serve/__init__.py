"""An HTTP service that predicts and keeps learning, and a web page to look at it. Start it with `manyclass serve`."""
