"""The imitation of Redis in the fakeredis package, served over TCP; used where no redis-server runs."""

from __future__ import annotations

import sys

from fakeredis import TcpFakeServer
from fakeredis._clients._tcp_server import TCPFakeRequestHandler


class Connection(TCPFakeRequestHandler):
    """One client; its addresses are written as Redis writes them, since RQ reads them with CLIENT INFO."""

    def setup(self) -> None:
        super().setup()
        client = self.current_client.get_socket()._client_info
        for name in ("addr", "laddr"):
            host, port = client[name][:2]
            client[name] = f"{host}:{port}"


def main() -> None:
    """Serve on the host and port named until the process is ended."""
    host, port = sys.argv[1:3]
    server = TcpFakeServer((host, int(port)), server_type="redis")
    server.RequestHandlerClass = Connection
    server.serve_forever()


if __name__ == "__main__":
    main()
