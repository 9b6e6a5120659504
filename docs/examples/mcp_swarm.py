"""A swarm whose workers use tools of two MCP servers, one over standard streams and one over HTTP, all at once.

In: a database shop.db beside sandbox.toml, both servers' tools approved. Out: the merged answer on standard output; on
standard error each worker's answer, or why it has none, and the cost. Invariant: broken output of a tool goes to the
model as raw text with a mark, and what a tool refuses as an error that it can read: no worker fails because of it.

A worker's words name the calls because the stand-in server goes by them; a model decides by itself. Start:
    sqlite3 shop.db "CREATE TABLE sale (product TEXT, amount INTEGER); INSERT INTO sale VALUES ('tea', 40), ('rum', 95)"
    export ROUTER_CONFIG=sandbox.toml
    router sandbox & python stock_server.py 8081 &
    router tools approve
    python mcp_swarm.py
"""

from __future__ import annotations

import sys

from router import Plan, RouterError, route

WORKERS = Plan.graph(
    {
        "sales": """Which product sold best?
Call tool shop__query with {"sql": "SELECT product, amount FROM sale ORDER BY amount DESC"}""",
        "tables": """How is the data laid out, and how much of it is there? Look at both at once.
Call tool shop__list_tables with {}
Call tool shop__query with {"sql": "SELECT count(*) FROM sale"}""",
        "stock": """How much tea is in stock, and how much rum? Ask for one after the other.
Call tool stock__stock with {"product": "tea"}
Then call tool stock__stock with {"product": "rum"}""",
        "clean-up": """Remove what is not sold any more.
Call tool shop__query with {"sql": "DELETE FROM sale WHERE amount = 0"}""",
    }
)
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
"""A switch of the vendor's, passed on as it is."""


def say(line: str) -> None:
    """Print a line beside the answer."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    task = "Report on the shop: sales, data, stock."
    try:
        result = route(task, plan=WORKERS, mcp_tools=("shop__*", "stock__*"), extra=THINKING, budget_usd="0.10")
    except RouterError as error:
        sys.exit(str(error))
    for end in result.steps:
        say(f"== {end.step_id} {end.status}: {end.error or end.text}")
    say(f"cost: {result.cost.settled_usd:.6f} USD for {len(result.calls)} calls of models")
    say(f"each call of a tool: router runs show {result.run_id}")
    sys.stdout.write(f"{result.text}\n")
