"""What a hundred workers pay for one document of 50,000 tokens: warmed, cold, and behind their questions (S8).

Run: python -m benchmarks.shared_document
A real run each, against the stand-in server with its prefix cache, priced at deepseek-v3.2's list, where a cached read
costs a tenth. Counted in full reads of the document, by the server's own log; 1 + 99 × 0.1 = 10.9 is the least.
Checked first: the ledger's cost is the one that follows from the server's counts.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from router.client import Router
from router.endpoints.sandbox import Fault, Sandbox, SandboxThread
from router.settings import Settings
from router.task import Task, TaskStep

WORKERS = 100
DOCUMENT_TOKENS = 50_000
SENTENCE = "The harbour of Lisbon took in more goods this year than in any year before it, says the report. "
DOCUMENT = (SENTENCE * (DOCUMENT_TOKENS * 4 // len(SENTENCE) + 1))[: DOCUMENT_TOKENS * 4]  # 4 characters a token there
RATE, READ_RATE, OUTPUT_RATE = Decimal("0.28"), Decimal("0.028"), Decimal("0.42")  # USD per Mtok


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way's figures: share of input read from the cache, cost in full reads of the document, USD in all."""

    cached_share: float
    reads: Decimal
    usd: Decimal


def task_of(*, document_first: bool) -> Task:
    """Return the hundred questions, the document before or behind each."""
    questions = [f"Question {number}: what does the report say of pier {number}?" for number in range(WORKERS)]
    prompts = questions if document_first else [f"{question}\n\n{DOCUMENT}" for question in questions]
    steps = tuple(TaskStep(id=f"q{number}", prompt=prompt) for number, prompt in enumerate(prompts))
    asked = ({"role": "user", "content": "Answer every question."},)
    return Task(messages=asked, steps=steps, merge=False, shared=DOCUMENT if document_first else None)


async def outcome_of(task: Task, folder: Path, **context: Any) -> Outcome:
    """Run the task on a fresh server and ledger; all that may start at once does."""
    with SandboxThread(Sandbox(faults={"*": Fault(latency_ms=6_000)})) as server:
        endpoint = {"base_url": server.base_url, "last_list": True, "concurrency": 200, "first_concurrency": 200}
        settings = Settings.model_validate(
            {
                "database": {"url": f"sqlite:///{folder / 'ledger.db'}"},
                "endpoints": {"sandbox": endpoint},
                "configurations": {
                    "one": {"orchestrator": "deepseek-v3.2", "worker": "deepseek-v3.2", "policy": "fixed"}
                },
                "default_configuration": "one",
                "swarm": {"concurrency": WORKERS, "step_timeout_s": 300, "idle_timeout_s": 300},
                "context": {"warmup_wait_s": 300, **context},
            }
        )
        async with Router(settings, environ={}) as router:
            result = await router.route(task)
        log = server.log
    assert len(log) == WORKERS
    assert all(step.status == "succeeded" for step in result.steps)
    read = sum((each.input_tokens - each.cached_tokens) * RATE + each.cached_tokens * READ_RATE for each in log)
    usd = (read + sum(each.output_tokens for each in log) * OUTPUT_RATE) / 10**6
    assert result.cost.settled_usd == usd, (result.cost.settled_usd, usd)
    cached = sum(each.cached_tokens for each in log) / sum(each.input_tokens for each in log)
    return Outcome(cached, read / (RATE * DOCUMENT_TOKENS), usd)


async def main() -> None:
    """Print the three ways side by side."""
    ways = {
        "document first, one call ahead": (task_of(document_first=True), {}),
        "document first, all at once": (task_of(document_first=True), {"warmup": False}),
        "document behind the question": (task_of(document_first=False), {}),
    }
    print(
        f"{WORKERS} workers, one document of {DOCUMENT_TOKENS:,} tokens; the least there is: {1 + 99 * 0.1:.1f} reads"
    )
    for name, (task, context) in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            found = await outcome_of(task, Path(folder), **context)
        print(f"{name:32} cached {found.cached_share:6.1%}   {found.reads:7.2f} reads   {found.usd:.4f} USD")


if __name__ == "__main__":
    asyncio.run(main())
