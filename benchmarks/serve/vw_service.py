"""Vowpal Wabbit behind a socket, as its daemon works: a line with a text in, a line with the class out.

For the package on PyPI, which cannot run the daemon. `load.py` starts it in the environment of that package.
"""

import socket
import sys

import vowpalwabbit


def main() -> None:
    """Serve one connection after the other."""
    model, port = sys.argv[1], int(sys.argv[2])
    workspace = vowpalwabbit.Workspace(arg_list=["-i", model, "-t", "--quiet"])
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    connection.sendall(b"%d\n" % workspace.predict(line.decode()))


if __name__ == "__main__":
    main()
