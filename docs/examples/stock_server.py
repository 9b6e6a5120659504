"""A second sample MCP server, over streamable HTTP: what is in stock. One of its records is broken.

In: a port, as the one argument; MCP over HTTP at /mcp of this machine. Out: the record of a product, as JSON; that of
rum was cut off when it was stored, and is given as it is. Invariant: it only reads.

Start: python stock_server.py 8081
"""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

STOCK = {"tea": '{"product": "tea", "in_stock": 120}', "rum": '{"product": "rum", "in_stock": 4, "shelf": "B7", "orde'}
server = MCPServer("stock", log_level="ERROR")


@server.tool(structured_output=False)
def stock(product: str) -> str:
    """Return what is in stock of a product, as JSON."""
    if product not in STOCK:
        raise ToolError(f"there is no {product!r}; there is {', '.join(STOCK)}")
    return STOCK[product]


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        sys.exit("usage: python stock_server.py PORT")
    server.run("streamable-http", port=int(sys.argv[1]))
