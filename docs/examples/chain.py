"""A fixed chain of roles, each with a model and a prompt limit of its own: search, analysis, report.

In: a question, as the one argument. Out: the report on standard output; on standard error what it is expected to cost
before anything is sent, and then what each role was done by and cost. Invariant: every role sees the question and what
the roles before it have found, and no prompt between them is longer than its limit.

Start, against the stand-in server: router sandbox &
                                    ROUTER_CONFIG=sandbox.toml python chain.py "Which heat pump suits an old house?"
"""

from __future__ import annotations

import sys

from router import Plan, Result, RouterError, estimate, route

CHAIN = Plan.chain(
    {"role": "search", "candidates": ["deepseek-v3.2", "kimi-k2"], "max_output_tokens": 900},
    {"role": "analysis", "candidates": ["deepseek-v3.2", "kimi-k2", "gpt-4.1"], "quality_floor": 0.65},
    {"role": "report", "candidates": ["gpt-4.1", "kimi-k2"], "max_input_tokens": 1200},
)
"""A prompt has at most 1,500 tokens where a role says nothing else."""


def answered(question: str) -> Result:
    """Do the chain for one question; it may cost 10 cents and not more."""
    expected = estimate(question, plan=CHAIN).cost
    if expected is not None:
        say(f"expected: {expected.expected_usd:.6f} USD ({expected.low_usd:.6f} to {expected.high_usd:.6f})")
    return route(question, plan=CHAIN, budget_usd="0.10")


def say(line: str) -> None:
    """Print a line beside the answer."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit('usage: python chain.py "QUESTION"')
    try:
        result = answered(sys.argv[1])
    except RouterError as error:
        sys.exit(str(error))
    for call in result.calls:
        tokens = call.usage.input_tokens if call.usage else "?"
        say(f"{call.step_id}: {call.model_asked}, {tokens} tokens read, {call.settled_usd} USD")
    say(f"cost: {result.cost.settled_usd:.6f} USD")
    sys.stdout.write(f"{result.text}\n")
