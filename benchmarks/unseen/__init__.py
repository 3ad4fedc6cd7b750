"""Sets that played no part in any choice: made from PyPI and Debian packages, run with the defaults of everybody."""
