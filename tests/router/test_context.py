"""What a prompt holds of what went before: rounds, earlier answers, a shared document, merges within the window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.context import (
    cut_text,
    fair_limit,
    fitted,
    last_rounds,
    prefix_length,
    round_count,
    shared_messages,
    trimmed,
    window,
    windowed,
    with_cache_mark,
    with_shared,
)
from router.errors import ConfigError, ContextTooSmall
from router.merging import merge_room, merge_round, merged_name
from router.plan import merge_messages, planner_messages, step_task, worker_messages
from router.result import Step
from router.settings_context import ContextSettings
from router.settings_file import load_settings
from router.task import Task
from router.tokens import estimate_message_tokens, estimate_tokens

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TEXTS = st.text(alphabet="ab cd\n.é文", max_size=400) | st.integers(0, 3000).map(lambda n: "word " * n)


def rounds_of(count: int, words: int = 3) -> list[dict[str, Any]]:
    """Return a conversation whose every second round calls a tool."""
    messages: list[dict[str, Any]] = []
    for number in range(count):
        messages.append({"role": "user", "content": f"question {number} " + "x " * words})
        if number % 2:
            messages.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
            messages.append({"role": "tool", "tool_call_id": "c1", "content": f"result {number}"})
        messages.append({"role": "assistant", "content": f"answer {number}"})
    return messages


# Rounds --------------------------------------------------------------------------------------------------------------


def test_the_last_rounds_stay_with_system_messages_and_a_note() -> None:
    talk = [SYSTEM, *rounds_of(8)]
    found = window(talk, 5, 100_000)

    assert found.messages[0] == SYSTEM
    assert found.messages[1]["role"] == "system"
    assert found.messages[1]["content"].startswith("[3 earlier rounds, about ")
    assert list(found.messages[2:]) == rounds_of(8)[-sum(2 + 2 * (n % 2) for n in range(3, 8)) :]
    assert (found.dropped_rounds, round_count(found.messages)) == (3, 5)
    assert found.warning is not None
    assert "3 earlier rounds" in found.warning


def test_what_fits_is_not_touched() -> None:
    talk = [SYSTEM, *rounds_of(5)]

    assert window(talk, 5, 100_000).messages == tuple(talk)
    assert window(talk, 5, 100_000).warning is None


def test_the_shared_document_stays_first() -> None:
    talk = [*with_shared([SYSTEM], "the document"), *rounds_of(9)]
    found = window(talk, 2, 100_000)

    assert list(found.messages[:3]) == talk[:3]
    assert [message["content"] for message in found.messages[:3]] == [
        "Be brief.",
        "the document",
        "I have read the document.",
    ]
    assert round_count(found.messages) == 2


def test_a_context_too_small_for_the_last_round_is_one_clear_error() -> None:
    with pytest.raises(ContextTooSmall, match=r"context: 50 tokens are less than the \d+ of what is never left out"):
        window([SYSTEM, *rounds_of(3, words=200)], 5, 50)


@given(
    count=st.integers(1, 12),
    rounds=st.integers(1, 6),
    limit=st.integers(60, 2_000),
    words=st.integers(1, 60),
    has_document=st.booleans(),
)
def test_law_a_window_is_within_its_limits_and_whole(
    *, count: int, rounds: int, limit: int, words: int, has_document: bool
) -> None:
    """At most so many rounds and tokens; system messages, document and last round stay; no result without its call."""
    talk: list[Any] = [SYSTEM, *rounds_of(count, words)]
    if has_document:
        talk = list(with_shared(talk, "the document " * 10))
    try:
        found = window(talk, rounds, limit)
    except ContextTooSmall:
        start = prefix_length(talk)
        never_left_out = [*talk[: max(start, 1)], *last_rounds(talk[start or 1 :], 1)]
        assert estimate_message_tokens(never_left_out) > limit - 30  # the note itself takes some
        return
    assert estimate_message_tokens(found.messages) <= limit
    assert round_count(found.messages) <= rounds
    assert found.dropped_rounds + round_count(found.messages) == count
    assert found.messages[0] == SYSTEM
    assert list(found.messages[-1:]) == talk[-1:]
    for at, message in enumerate(found.messages):
        if message["role"] == "tool":
            assert found.messages[at - 1].get("tool_calls")
    if has_document:
        assert list(found.messages[:3]) == talk[:3]


def test_a_task_is_trimmed_where_it_is_too_long_or_always() -> None:
    task = Task(messages=tuple(rounds_of(8)))
    long = Task(messages=tuple(rounds_of(8, words=300)))

    assert fitted(task, ContextSettings()) == (task, None)
    kept, note = fitted(task, ContextSettings(trim="always"))
    assert round_count(kept.messages) == 5
    assert note is not None
    kept, note = fitted(long, ContextSettings(max_tokens=1_500))
    assert 1 <= round_count(kept.messages) < 5
    assert estimate_message_tokens(kept.messages) <= 1_500


def test_a_conversation_that_fits_is_not_touched_unless_it_is_always_trimmed() -> None:
    talk = rounds_of(8)

    assert windowed(talk, ContextSettings(), 100_000).messages == tuple(talk)
    assert round_count(windowed(talk, ContextSettings(trim="always"), 100_000).messages) == 5
    assert round_count(windowed(talk, ContextSettings(), 100).messages) < 5


def test_a_task_of_one_round_is_left_to_its_model_s_own_context() -> None:
    task = Task(messages=({"role": "user", "content": "word " * 5_000},))

    assert fitted(task, ContextSettings(max_tokens=256)) == (task, None)


# Texts that are cut --------------------------------------------------------------------------------------------------


def test_a_cut_is_at_a_word_s_end_and_says_how_much_is_missing() -> None:
    text = "alpha beta gamma delta " * 50
    short = cut_text(text, 40)

    kept, _, mark = short.partition(" [… cut, ")
    assert text.startswith(kept)
    assert kept.split()[-1] in {"alpha", "beta", "gamma", "delta"}
    assert mark.endswith(" tokens]")
    assert int(mark.split()[0]) + estimate_tokens(kept) == estimate_tokens(text)


@given(TEXTS, st.integers(20, 500))
def test_law_a_cut_text_fits(text: str, limit: int) -> None:
    short = cut_text(text, limit)

    assert estimate_tokens(short) <= limit
    assert short == text or "[… cut, " in short


@pytest.mark.parametrize(
    ("sizes", "room", "limit"),
    [([10, 20, 30], 60, 30), ([10, 20, 30], 50, 20), ([10, 20, 30], 30, 10), ([100, 1, 1], 52, 50), ([], 5, 0)],
)
def test_the_longest_are_cut_first(sizes: list[int], room: int, limit: int) -> None:
    assert fair_limit(sizes, room) == limit


def test_s19_a_step_s_prompt_stays_under_its_limit() -> None:
    step = Step("c", "write", "Write the report from these results.", ("a", "b"))
    results = {"a": "short result", "b": "long finding " * 3_000}
    (message,) = worker_messages(step, results, input_tokens=1_500)

    assert 1_400 < estimate_message_tokens([message]) <= 1_500
    assert message["content"].startswith("Result of a:\nshort result\n\nResult of b:\nlong finding")
    assert message["content"].endswith(" tokens]\n\nWrite the report from these results.")


def test_a_step_s_own_words_are_never_cut() -> None:
    own = "do this and that " * 1_000
    (message,) = worker_messages(Step("b", "write", own, ("a",)), {"a": "finding " * 1_000}, input_tokens=1_500)

    assert message["content"].endswith(own)
    assert "finding finding" in message["content"]  # the results keep a quarter of the limit
    assert estimate_tokens(message["content"].removesuffix(own)) <= 400


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), TEXTS, max_size=6), st.integers(200, 2_000))
def test_law_trimmed_answers_fit_and_short_ones_stay(results: dict[str, str], room: int) -> None:
    found = trimmed(results, room)

    assert sum(map(estimate_tokens, found.values())) <= room
    assert list(found) == list(results)
    for name, text in results.items():
        if estimate_tokens(text) <= room // len(results):
            assert found[name] == text


# A shared document ---------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=200), st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=4))
def test_law_all_workers_prompts_begin_alike_to_the_last_byte(document: str, prompts: list[str]) -> None:
    task = Task(messages=({"role": "user", "content": "x"},), shared=document)
    asked = [step_task(task, Step("s", "chat", prompt), {}, 100) for prompt in prompts]
    sent = [json.dumps([dict(message) for message in each.messages]) for each in asked]
    head = json.dumps([dict(message) for message in shared_messages(document)])[:-1]

    assert all(each.startswith(head) for each in sent)
    assert all(each.messages[-1]["content"] == prompt for each, prompt in zip(asked, prompts, strict=True))


def test_a_cache_mark_stands_at_the_end_of_the_document_and_nowhere_else() -> None:
    marked = with_cache_mark([*shared_messages("the document"), {"role": "user", "content": "q"}])

    assert marked[1]["content"] == [{"type": "text", "text": "the document", "cache_control": {"type": "ephemeral"}}]
    assert [message["content"] for message in (marked[0], *marked[2:])] == [
        shared_messages("the document")[0]["content"],
        "I have read the document.",
        "q",
    ]
    assert with_cache_mark(rounds_of(2)) == tuple(rounds_of(2))


def test_a_planner_sees_the_beginning_of_the_document() -> None:
    system, _ = planner_messages("the task", "opening words " + "more " * 5_000)

    assert "opening words" in system["content"]
    assert estimate_tokens(system["content"]) < 500


# Merges --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab1-", min_size=1, max_size=12), TEXTS), min_size=1, max_size=12),
    TEXTS.filter(str.strip),
    st.integers(250, 5_000),
)
def test_law_no_prompt_of_a_merge_is_over_the_window(parts: list[tuple[str, str]], text: str, room: int) -> None:
    """Round after round until one answer is left; each answer as long as its group was, at the worst."""
    for _ in range(10):
        merging = merge_round(text, parts, room)
        for group in merging.groups:
            assert estimate_message_tokens(merge_messages(merging.task_text, group)) <= room
        names = [name for group in merging.groups for name, _ in group]
        assert all(whole.startswith(name) for name, (whole, _) in zip(names, parts, strict=True))
        if merging.is_last:
            return
        assert len(merging.groups) < len(parts)
        parts = [(merged_name(group), "".join(body for _, body in group)) for group in merging.groups]
    raise AssertionError("the merge does not end")


def test_what_is_too_long_for_a_merge_alone_is_cut_and_counted() -> None:
    merging = merge_round("the task", [("a", "word " * 5_000), ("b", "short")], 1_000)

    assert merging.cut == 1
    assert merging.is_last
    assert dict(merging.groups[0])["b"] == "short"
    assert "[… cut, " in dict(merging.groups[0])["a"]


def test_a_merge_that_cannot_hold_two_results_is_one_clear_error() -> None:
    with pytest.raises(ContextTooSmall, match="merge: 60 tokens for a prompt hold no two results"):
        merge_round("the task", [("a", "one"), ("b", "two")], 60)


def test_the_room_of_a_merge() -> None:
    assert merge_room(100_000, 200_000) == 60_000
    assert merge_room(None, 200_000) == 19_200  # 32,000 where it is not known
    assert merge_room(1_000_000, 200_000) == 200_000


def test_merged_answers_are_named_after_their_first_and_last_result() -> None:
    once = merged_name([("t1", ""), ("t2", "")])

    assert once == "t1 to t2"
    assert merged_name([(once, ""), ("t3 to t4", "")]) == "t1 to t4"
    assert merged_name([("t5", "")]) == "t5"


# Settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[context]\nrounds = 0", "router.toml:2: context.rounds is 0; it should be greater than or equal to 1"),
        ("[context]\ntrim = 'never'", "router.toml:2: context.trim is 'never'; it should be 'overflow' or 'always'"),
        ("[context]\nround = 5", "router.toml:2: context.round does not exist; did you mean rounds?"),
        ("[context]\nwarmup = 1", "router.toml:2: context.warmup is 1; it should be a valid boolean"),
        ("[judge]\nshare = 2", "router.toml:2: judge.share is 2; it should be less than or equal to 1"),
        ("[judge]\nmodle = 'x'", "router.toml:2: judge.modle does not exist; did you mean model?"),
        (
            "[configurations.x]\norchestrator = 'a'\nworker = 'b'\nworker_extras = {}",
            "router.toml:4: configurations.x.worker_extras does not exist; did you mean worker_extra",
        ),
    ],
)
def test_a_fault_of_the_settings_is_told_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "router.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, {})

    assert str(caught.value).splitlines()[0].startswith(fault)


def test_a_secret_is_refused_where_body_fields_are_set(tmp_path: Path) -> None:
    planted = "sk-planted-0123456789abcdefghij"
    text = f"[configurations.x]\norchestrator = 'a'\nworker = 'b'\nextra = {{ user = '{planted}' }}"
    (tmp_path / "router.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="would put a secret into the file") as caught:
        load_settings(tmp_path, {})

    assert planted not in str(caught.value)
