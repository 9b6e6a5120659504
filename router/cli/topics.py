"""`router topics`: what agents have told one another: list, show, prune.

In: options. Out: pages, messages or JSON on stdout. Invariant: `list` and `show` change nothing, no cursor either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import put, say
from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from router.ledger import Ledger
    from router.messages import Message

topics_app = typer.Typer(
    help="What agents have told one another: list, show, prune.", no_args_is_help=True, rich_markup_mode=None
)
_FOLLOW_S = 1.0
"""Between two looks whether a followed run has ended, seconds."""


@topics_app.callback()
def topics() -> None:
    """What agents have told one another: list, show, prune."""


def _open() -> Ledger:
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    return open_ledger(default_url(load_settings()))


@topics_app.command("list")
def list_topics(
    *,
    runs: Annotated[bool, typer.Option("--runs", help="Those of runs, too.")] = False,
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, help="How many, the newest message first.")] = 50,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """List topics: how many messages they have, of when, and who has subscribed.

    Example: router topics list --runs
    """
    from router.cli.runs import put_wide
    from router.cli.topics_page import topics_page

    with _open() as ledger:
        found = ledger.messages.topics(of_runs=runs, most=last)
    put_wide(topics_page(found), form)


@topics_app.command("show")
def show(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic; that of a run is run/RUN.")],
    *,
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, help="How many messages, the newest.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, a line each, until the run ends, or Ctrl-C.")
    ] = False,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """Show the last messages of a topic, and how far its subscribers are.

    Example: router topics show run/0199a1b2-… --follow
    """
    from router.cli.runs import put_wide
    from router.cli.topics_page import topic_page
    from router.messages.board import unknown_topic

    with _open() as ledger:
        found = ledger.messages.topics(topic)
        if not found:
            raise unknown_topic(topic, ledger.messages.topic_names())
        if not follow:
            page = topic_page(found[0], ledger.messages.newest(topic, last), ledger.messages.cursors(topic))
            put_wide(page, form)
            return
        from router.cli.stopping import run_until_stopped

        run_until_stopped(_follow(ledger, topic, max(0, found[0].last_seq - last), is_json=form is ResultFormat.JSON))


async def _follow(ledger: Ledger, topic: str, after_seq: int, *, is_json: bool) -> None:
    import asyncio

    from router.cli.topics_page import message_line
    from router.messages import Board
    from router.messages.names import run_of

    run_id = run_of("topic", topic)
    is_over = False  # what was said last is on record once the run's end is: one more look finds it
    async with Board(ledger).subscribe(topic, after_seq=after_seq) as subscription:
        while True:
            messages: tuple[Message, ...] = await subscription.take(100, 0 if is_over else _FOLLOW_S)
            put("".join(f"{message_line(message, is_json=is_json)}\n" for message in messages), is_json=is_json)
            if messages or run_id is None:
                continue
            if is_over:
                return
            state = await asyncio.to_thread(ledger.run_reader.state, run_id)
            is_over = state is None or state.row.ended is not None


@topics_app.command("prune")
def prune(
    before: Annotated[
        str, typer.Option("--before", metavar="YYYY-MM-DD", help="Delete messages of UTC days before this one.")
    ],
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Only of this topic.")] = None,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """Delete messages that are old; those of runs go by themselves, with the run's answers.

    Example: router topics prune --before 2026-07-01
    """
    import json
    from dataclasses import asdict
    from datetime import UTC, datetime

    from router.cli.month_option import day_of
    from router.ledger.message_prune import prune_messages
    from router.ledger.reader import instant_us
    from router.messages.board import unknown_topic

    day = day_of(before, "--before")
    before_us = instant_us(datetime(day.year, day.month, day.day, tzinfo=UTC))
    with _open() as ledger:
        if topic is not None and not ledger.messages.last_seqs([topic]):
            raise unknown_topic(topic, ledger.messages.topic_names())
        done = ledger.transact(lambda connection: prune_messages(connection, before_us, topic))
    if form is ResultFormat.JSON:
        put(f"{json.dumps({**asdict(done), 'before': day.isoformat()}, indent=2)}\n", is_json=True)
        return
    put(f"messages deleted: {done.messages:,}\nof topics: {done.topics:,}\n")
    if done.unread:
        say(f"note: {done.unread:,} of them had not been acknowledged by every subscriber")
