"""Two agents: one finds, the other writes; each may be killed and started again, and nothing is lost or said twice.

    python docs/examples/two_agents.py [DATABASE_URL]

They talk over the ledger's database (here a file of its own), and need no endpoint and no key.
"""

from __future__ import annotations

import asyncio
import sys

from router import Board

PAGES = ["tea is grown in Assam", "rum is made of cane", "coffee came from Kaffa"]


async def reader(board: Board) -> None:
    """Publish a finding for each page; a page that was read before is not published again."""
    for number, page in enumerate(PAGES):
        await board.publish("findings", page, sender="reader", headers={"kind": "fact"}, key=f"page {number}")
    await board.publish("findings", len(PAGES), sender="reader", headers={"kind": "end"}, key="end")


async def writer(board: Board) -> str:
    """Take the findings in their order, ask for an opinion, and return the report; then acknowledge, and not before."""
    async with board.subscribe("findings", "writer") as findings:
        taken = [await anext(findings)]
        while taken[-1].headers["kind"] != "end":
            taken.append(await anext(findings))
        facts = [message.body for message in taken[:-1]]
        opinion = await board.ask("reviews", facts, timeout_s=10, sender="writer", key="first draft")
        report = f"{'. '.join(facts)}. Review: {opinion.body}"
        await board.state.put("report", report, "any")
        await findings.ack(*taken)
    return report


async def reviewer(board: Board) -> None:
    """Answer one question."""
    async for message in board.subscribe("reviews", "reviewer"):
        await board.reply(message, f"{len(message.body)} facts, good", sender="reviewer")
        await message.ack()
        return


async def main(url: str) -> None:
    """Let the agents work at once, and print what comes of it."""
    async with Board(url) as board:
        _, report, _ = await asyncio.gather(reader(board), writer(board), reviewer(board))
        print(report)
        print("on record:", (await board.state.get("report")) is not None)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///agents.db"))
