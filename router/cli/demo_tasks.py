"""The thirty tasks and the swarm task of `router demo`, of every class a team sends."""

from __future__ import annotations

from typing import Final

TASKS: Final = (
    "Extract the invoice number, date and total as JSON: 'Invoice 2026-118 of 3 October 2026, due 4,200.00 EUR.'",
    "Extract every e-mail address from: 'Write to ana@example.org, or to ben@example.com after 6 pm.'",
    "Extract the product names and quantities from: '12 chairs, 3 tables and one lamp for the third floor.'",
    "Classify this review as positive, neutral or negative: 'The battery lasts, the screen does not.'",
    "Classify this ticket as billing, bug or question: 'I was charged twice for October.'",
    "Classify this sentence as a fact or an opinion: 'Lisbon is the loveliest capital of Europe.'",
    "Summarize in one sentence: 'The committee heard three proposals, rejected one, sent one back and adopted one.'",
    "Summarize for an executive: 'Latency rose after the release, since the index was cold; a rollback restored it.'",
    "Summarize this changelog in one line: 'Fixed a crash on empty input. Added a dry-run flag. Removed Python 3.8.'",
    "Translate to French: 'The meeting has been moved to Thursday afternoon.'",
    "Translate to Japanese: 'Please send the signed contract by the end of the month.'",
    "Translate to German: 'Our office is closed on public holidays.'",
    "Write a polite e-mail that declines a meeting on Friday and offers Monday instead.",
    "Write a short product description for a foldable bicycle helmet.",
    "Write a four-line poem about the first snow of the year.",
    "Write a Python function that returns the n-th Fibonacci number, and a test for it.",
    "Explain what this SQL does: SELECT team, COUNT(*) FROM tickets GROUP BY team HAVING COUNT(*) > 10;",
    "Find the bug: def mean(xs): return sum(xs) / len(xs) if xs else sum(xs) / 0",
    "Calculate the monthly payment of a loan of 12,000 at 6 % a year over 36 months.",
    "Solve for x: 3x + 7 = 2x + 19. Show the steps.",
    "What is the probability of at least one six in four throws of a die?",
    "All managers attend the meeting. Kim does not attend it. Is Kim a manager? Give your reasoning.",
    "Three boxes are labelled wrongly: apples, oranges, both. Which one do you open first, and why?",
    "If it rains the match is off. The match is on. What follows?",
    "Compare the three most common ways to store time series and give the strengths of each.",
    "Research question: which factors drive the cost of running many language-model agents? List them with reasons.",
    "Hello! What can you help me with today?",
    "What is a good name for a grey cat?",
    "Thanks for the help yesterday. Could you remind me what a receipt is for?",
    "Plan a two-day offsite for twelve people: steps, who does what, and by when.",
)

_PLACES: Final = """
Lisbon Porto Madrid Seville Bilbao Paris Lyon Nantes Lille Brussels Ghent Bruges Amsterdam Utrecht Delft
Berlin Leipzig Dresden Hamburg Bremen Munich Vienna Graz Salzburg Zurich Basel Bern Geneva Milan Turin Genoa
Venice Bologna Florence Rome Naples Bari Palermo Athens Patras Sofia Plovdiv Bucharest Cluj Belgrade Zagreb
Split Ljubljana Budapest Prague Brno Bratislava Warsaw Krakow Gdansk Vilnius Riga Tallinn Helsinki Turku
Stockholm Gothenburg Malmo Copenhagen Aarhus Oslo Bergen Reykjavik Dublin Cork Belfast Glasgow Edinburgh
York Leeds London Bath Bristol Cardiff Oxford Tokyo Osaka Kyoto Nara Sapporo Seoul Busan Taipei Hanoi
Bangkok Jakarta Singapore Manila Perth Sydney Hobart Auckland Dunedin Lima Quito Bogota
""".split()  # noqa: SIM905 — a list of 101 quoted words reads worse


def swarm_task(workers: int) -> str:
    """Return a task of as many independent items as there are workers."""
    items = "\n".join(
        f"{number}. {_PLACES[(number - 1) % len(_PLACES)]}: one sentence for a travel guide"
        for number in range(1, workers + 1)
    )
    return f"Write one sentence for each of these {workers} places, then an introduction to all of them.\n{items}"
