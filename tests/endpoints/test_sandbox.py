"""The stand-in server: deterministic, countable, and wrong on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from router.endpoints.sandbox import (
    Fault,
    Sandbox,
    SandboxThread,
    faults_from_json,
    faults_from_texts,
    read_log,
)
from router.errors import RouterError, WrongUsage

PLANNER = (
    "You plan.\n"
    'Reply with one JSON object: {"tasks": [{"id": "...", "class": "...", "prompt": "...", "depends_on": []}],'
    ' "n_tasks": N}'
)
QUESTION = "Summarise the harbour report of Rotterdam."


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def body(text: str = QUESTION, model: str = "gpt-4.1", *, system: str | None = None, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}] if system else []
    return {"model": model, "messages": [*messages, {"role": "user", "content": text}], **more}


async def ask(http: aiohttp.ClientSession, sandbox: Sandbox, request: dict[str, Any]) -> tuple[int, Any]:
    async with http.post(f"{sandbox.base_url}/chat/completions", json=request) as response:
        return response.status, await response.json(content_type=None)


async def said(http: aiohttp.ClientSession, sandbox: Sandbox, request: dict[str, Any]) -> str:
    status, answer = await ask(http, sandbox, request)
    assert status == 200, answer
    text = answer["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


# Answers -------------------------------------------------------------------------------------------------------------


async def test_answers_depend_on_model_and_messages_alone(http: aiohttp.ClientSession) -> None:
    async with Sandbox() as one, Sandbox(seed=9, faults={"*": Fault(served_model="x")}) as other:
        text = await said(http, one, body())
        assert text == await said(http, one, body(temperature=1))
        assert text == await said(http, other, body())
        assert text != await said(http, one, body(model="kimi-k2"))
        assert text != await said(http, one, body("Summarise the harbour report of Antwerp."))
        assert "harbour" in text
        assert "Rotterdam" in text


@pytest.mark.parametrize("model", ["a", "b", "c", "d"])
@pytest.mark.parametrize("verb", ["Classify", "Extract", "Summarise", "Translate", "Implement", "Research", "Tell"])
async def test_answers_are_20_to_200_tokens_long(http: aiohttp.ClientSession, verb: str, model: str) -> None:
    async with Sandbox() as sandbox:
        _, answer = await ask(http, sandbox, body(f"{verb} the harbour report of Rotterdam.", model))
    assert 10 <= answer["usage"]["completion_tokens"] <= 200


async def test_tokens_are_four_characters_each_rounded_up(http: aiohttp.ClientSession) -> None:
    """Rendered: "system", "Be brief" and two newlines: 16 characters; "user", "Hi you" and two: 12; 28 / 4 = 7."""
    async with Sandbox() as sandbox:
        _, answer = await ask(http, sandbox, body("Hi you", system="Be brief"))
        _, longer = await ask(http, sandbox, body("Hi you!", system="Be brief"))
    usage, text = answer["usage"], answer["choices"][0]["message"]["content"]
    assert (usage["prompt_tokens"], longer["usage"]["prompt_tokens"]) == (7, 8)
    assert usage["completion_tokens"] == (len(text) + 3) // 4
    assert usage["total_tokens"] == 7 + usage["completion_tokens"]


async def test_max_tokens_cuts(http: aiohttp.ClientSession) -> None:
    async with Sandbox() as sandbox:
        whole = await said(http, sandbox, body())
        for limited in (body(max_tokens=5), body(max_completion_tokens=5)):
            _, answer = await ask(http, sandbox, limited)
            choice = answer["choices"][0]
            assert (choice["finish_reason"], answer["usage"]["completion_tokens"]) == ("length", 5)
            assert choice["message"]["content"] == whole[:20]


async def test_a_thousand_token_prefix_is_cached_once_it_was_answered(http: aiohttp.ClientSession) -> None:
    """Around the text stand "user" and two newlines, 6 characters: 1,300 tokens = 5,200 characters = a text of 5,194.

    1,024 + 2 x 128 = 1,280 is the last step within 1,300.
    """
    long, short = "x" * 5194, "x" * 4089  # 4,095 characters: one short of 1,024 tokens
    async with Sandbox() as sandbox:

        async def cached(text: str, model: str = "gpt-4.1") -> int:
            _, answer = await ask(http, sandbox, body(text, model))
            tokens = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert isinstance(tokens, int)
            return tokens

        assert [await cached(long), await cached(long)] == [0, 1280]
        assert await cached(long, "kimi-k2") == 0, "a cache is a model's own"
        assert await cached("x" * 4700 + "y" * 900) == 1152, (
            "4,705 like characters: 1,176 tokens; 1,152 is the step below"
        )
        assert await cached("y" + long) == 0, "only a prefix counts"
        assert [await cached(short), await cached(short)] == [0, 0]


async def test_a_hundred_cold_calls_at_once_all_miss(http: aiohttp.ClientSession) -> None:
    """1,024 + 7 x 128 = 1,920 is the last step within the 2,002 tokens of 8,006 characters."""
    async with Sandbox(faults={"*": Fault(latency_ms=1000)}) as sandbox:
        await asyncio.gather(*(ask(http, sandbox, body("x" * 8000)) for _ in range(100)))
        assert [entry.cached_tokens for entry in sandbox.log] == [0] * 100
        sandbox.set_faults({})
        _, answer = await ask(http, sandbox, body("x" * 8000))
    assert answer["usage"]["prompt_tokens"] == 2002
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 1920


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ("Write about:\n1. ships\n2. cranes\n3. quays", ["ships", "cranes", "quays"]),
        ("Do\n- a thing\n* another thing", ["a thing", "another thing"]),
        ("Compare 4 large cities", [f"Part {n} of 4: Compare 4 large cities" for n in range(1, 5)]),
        ("Use 100 workers", [f"Part {n} of 100: Use 100 workers" for n in range(1, 101)]),
        ("A report in five sections", [f"Part {n} of 5: A report in five sections" for n in range(1, 6)]),
        ("Just do it", [f"Part {n} of 3: Just do it" for n in range(1, 4)]),
    ],
)
async def test_it_plans_one_task_an_item(http: aiohttp.ClientSession, text: str, prompts: Sequence[str]) -> None:
    async with Sandbox() as sandbox:
        plan = json.loads(await said(http, sandbox, body(text, system=PLANNER)))
    assert [task["prompt"] for task in plan["tasks"]] == list(prompts)
    assert plan["n_tasks"] == len(prompts)
    assert len({task["id"] for task in plan["tasks"]}) == len(prompts)
    assert all(task["depends_on"] == [] for task in plan["tasks"])


async def test_a_task_says_after_which_others_it_comes(http: aiohttp.ClientSession) -> None:
    async with Sandbox() as sandbox:
        plan = json.loads(await said(http, sandbox, body("1. ships\n2. cranes\n3. both (after 1, 2)", system=PLANNER)))
    assert [task["depends_on"] for task in plan["tasks"]] == [[], [], ["t1", "t2"]]


async def test_it_plans_what_is_left_another_way_or_as_it_is_told(http: aiohttp.ClientSession) -> None:
    left = (
        "\n\nSubtasks that are finished:\n- t1 (write): ships\n  result: Large.\n\n"
        "Subtasks that failed:\n- t2 (code): cranes\n  reason: 400\n\n"
        "Subtasks that were not run, since one they depend on failed:\n- t3 (write), after t1, t2: both: of them"
    )
    async with Sandbox() as sandbox:
        plan = json.loads(await said(http, sandbox, body("1. ships\n2. cranes" + left, system=PLANNER)))
        told = await said(http, sandbox, body('Do it.\n[rest {"tasks": [], "n_tasks": 0}]' + left, system=PLANNER))
    assert plan == {
        "tasks": [
            {"id": "again-t2", "class": "code", "prompt": "Another way: cranes", "depends_on": []},
            {
                "id": "again-t3",
                "class": "write",
                "prompt": "Another way: both: of them",
                "depends_on": ["t1", "again-t2"],
            },
        ],
        "n_tasks": 2,
    }
    assert told == '{"tasks": [], "n_tasks": 0}'


async def test_it_merges_what_it_is_given(http: aiohttp.ClientSession) -> None:
    text = "Merge the results below into one answer.\n\n[t1] Ships are large.\n\n[t2] Cranes are tall."
    async with Sandbox() as sandbox:
        merged = await said(http, sandbox, body(text))
    assert merged == "All 2 results taken together:\n- [t1] Ships are large.\n- [t2] Cranes are tall."


async def test_json_and_tools(http: aiohttp.ClientSession) -> None:
    schema = {
        "type": "object",
        "properties": {"port": {"type": "string"}, "n": {"type": "integer"}, "kind": {"enum": ["sea", "air"]}},
    }
    tool = {"type": "function", "function": {"name": "look_up", "parameters": schema}}
    async with Sandbox() as sandbox:
        plain = await said(http, sandbox, body(response_format={"type": "json_object"}))
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        formed = await said(http, sandbox, body(response_format=asked))
        _, called = await ask(http, sandbox, body(tools=[tool], tool_choice="required"))
        assert await said(http, sandbox, body(tools=[tool])), "auto: it answers by itself"
    assert list(json.loads(plain)) == ["answer"]
    assert json.loads(formed) == {"port": "harbour report Rotterdam", "n": 1, "kind": "sea"}
    choice = called["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "look_up"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["n"] == 1


def test_the_openai_sdk_takes_it_for_openai() -> None:
    tool: Any = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    messages: Any = body()["messages"]
    with SandboxThread(Sandbox(key="sk-good", models=["gpt-4.1"])) as sandbox:
        with openai.OpenAI(base_url=sandbox.base_url, api_key="sk-good", max_retries=0) as client:
            whole = client.chat.completions.create(model="gpt-4.1", messages=messages)
            options: Any = {"include_usage": True}
            chunks = list(
                client.chat.completions.create(model="gpt-4.1", messages=messages, stream=True, stream_options=options)
            )
            called = client.chat.completions.create(
                model="gpt-4.1", messages=messages, tools=[tool], tool_choice="required"
            )
            assert [model.id for model in client.models.list()] == ["gpt-4.1"]
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.create(model="gpt-9", messages=messages)
        with (
            openai.OpenAI(base_url=sandbox.base_url, api_key="sk-bad", max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError),
        ):
            stranger.chat.completions.create(model="gpt-4.1", messages=messages)
    text = whole.choices[0].message.content
    assert text
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert whole.usage is not None
    assert chunks[-1].usage == whole.usage
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert called.choices[0].message.tool_calls


@pytest.mark.parametrize(
    "request_",
    [{}, {"model": "m"}, {"model": "m", "messages": []}, {"model": "m", "messages": [1]}, {"messages": [{}]}],
)
async def test_bad_requests_are_400(http: aiohttp.ClientSession, request_: dict[str, Any]) -> None:
    async with Sandbox() as sandbox:
        status, answer = await ask(http, sandbox, request_)
        assert status == 400
        assert answer["error"]["message"]
        assert sandbox.log[0].status == 400


# Faults --------------------------------------------------------------------------------------------------------------


async def statuses(http: aiohttp.ClientSession, sandbox: Sandbox, count: int) -> list[int]:
    return [(await ask(http, sandbox, body()))[0] for _ in range(count)]


async def test_the_first_n_fail(http: aiohttp.ClientSession) -> None:
    async with Sandbox(faults={"gpt-4.1": Fault(status=500, first=2)}) as sandbox:
        assert await statuses(http, sandbox, 4) == [500, 500, 200, 200]
        assert (await ask(http, sandbox, body(model="kimi-k2")))[0] == 200
        assert [entry.fault for entry in sandbox.log] == ["status", "status", None, None, None]


async def test_a_share_fails_the_same_way_each_time(http: aiohttp.ClientSession) -> None:
    runs = []
    for _ in range(2):
        async with Sandbox(seed=3, faults={"*": Fault(status=503, share=0.5)}) as sandbox:
            runs.append(await statuses(http, sandbox, 40))
    assert runs[0] == runs[1]
    assert 10 <= runs[0].count(503) <= 30


async def test_limits_answer_429_with_retry_after(http: aiohttp.ClientSession) -> None:
    fault = Fault(max_in_flight=5, retry_after_s=2, latency_ms=50)
    async with Sandbox(faults={"*": fault}) as sandbox:
        answers = await asyncio.gather(*(ask(http, sandbox, body()) for _ in range(12)))
        assert sorted(status for status, _ in answers) == [200] * 5 + [429] * 7
        assert {entry.fault for entry in sandbox.log if entry.status == 429} == {"rate_limit"}
        async with http.post(f"{sandbox.base_url}/chat/completions", json=body()) as response:
            assert response.status == 200, "places are free again"
        sandbox.set_faults({"*": Fault(max_per_s=2, retry_after_s=1.5)})
        assert await statuses(http, sandbox, 3) == [200, 200, 429]
        async with http.post(f"{sandbox.base_url}/chat/completions", json=body()) as response:
            assert response.headers["Retry-After"] == "1.5"


async def test_one_worker_of_five_hangs(http: aiohttp.ClientSession) -> None:
    """W1: workers that never answer are told apart by their prompts."""
    faults = [Fault(match=f"worker {n}", hang=True) for n in (2, 4)]
    async with Sandbox(faults={"gpt-4.1": faults}) as sandbox:
        calls = (asyncio.wait_for(ask(http, sandbox, body(f"worker {n}")), 0.3) for n in range(1, 6))
        results = await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0.05)
        assert [isinstance(result, TimeoutError) for result in results] == [False, True, False, True, False]
        assert (
            sorted((entry.fault, entry.client_stayed) for entry in sandbox.log if entry.fault) == [("hang", False)] * 2
        )


@pytest.mark.parametrize(
    ("fault", "message"),
    [(Fault(drop=True), "disconnected"), (Fault(drop=True, latency_ms=20), "disconnected")],
)
async def test_a_dropped_connection(http: aiohttp.ClientSession, fault: Fault, message: str) -> None:
    async with Sandbox(faults={"*": fault}) as sandbox:
        with pytest.raises(aiohttp.ServerDisconnectedError, match=message):
            await ask(http, sandbox, body())
        assert (sandbox.log[0].fault, sandbox.log[0].status, len(sandbox.log)) == ("drop", None, 1)


async def test_streams_that_go_wrong(http: aiohttp.ClientSession) -> None:
    async def lines(sandbox: Sandbox, fault: Fault) -> list[str]:
        sandbox.set_faults({"*": fault})
        request = body(stream=True, stream_options={"include_usage": True})
        async with http.post(f"{sandbox.base_url}/chat/completions", json=request) as response:
            return [line.decode() async for line in response.content if line.strip()]

    async with Sandbox() as sandbox:
        whole = await lines(sandbox, Fault())
        assert whole[-1] == "data: [DONE]\n"
        assert '"usage"' in whole[-2]
        cut = await lines(sandbox, Fault(cut_after=3))
        assert len(cut) == 4, "the opening chunk and three pieces"
        assert "[DONE]" not in cut[-1]
        assert sandbox.log[-1].output_tokens == 3
        assert '"error"' in (await lines(sandbox, Fault(error_after=2)))[-1]
        assert '"usage"' not in "".join(await lines(sandbox, Fault(omit_usage=True)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lines(sandbox, Fault(stall_after=3)), 0.2)
        await asyncio.sleep(0.05)
        assert (sandbox.log[-1].fault, sandbox.log[-1].client_stayed) == ("stall_after", False)


@pytest.mark.parametrize("given", [None, "", "same"])
async def test_ids_that_are_null_empty_or_always_the_same(http: aiohttp.ClientSession, given: str | None) -> None:
    """R5, as an upstream does it."""
    async with Sandbox(faults={"*": Fault(upstream_id=given)}) as sandbox:
        assert {(await ask(http, sandbox, body()))[1]["id"] for _ in range(3)} == {given}
        sandbox.reset()
        assert len({(await ask(http, sandbox, body()))[1]["id"] for _ in range(3)}) == 3


async def test_another_model_name_and_no_usage(http: aiohttp.ClientSession) -> None:
    """R8, as a relay does it."""
    async with Sandbox(faults={"gpt-4o": Fault(served_model="gpt-4o-mini", omit_usage=True)}) as sandbox:
        _, answer = await ask(http, sandbox, body(model="gpt-4o"))
        assert answer["model"] == "gpt-4o-mini"
        assert "usage" not in answer
        assert (sandbox.log[0].model, sandbox.log[0].served_model) == ("gpt-4o", "gpt-4o-mini")


@pytest.mark.parametrize(("how", "is_json"), [("fenced", False), ("prose", False), ("truncated", False)])
async def test_bad_plans_once(http: aiohttp.ClientSession, how: Any, is_json: bool) -> None:  # noqa: FBT001
    async with Sandbox(faults={"*": Fault(bad_plan=how, first=1)}) as sandbox:
        bad = await said(http, sandbox, body("3 parts", system=PLANNER))
        with pytest.raises(ValueError, match=r"line 1 column"):
            json.loads(bad)
        good = await said(http, sandbox, body("3 parts", system=PLANNER))
    assert json.loads(good)["n_tasks"] == 3
    assert (good in bad) is (how != "truncated")
    assert not is_json


async def test_malformed(http: aiohttp.ClientSession) -> None:
    async with Sandbox(faults={"*": Fault(malformed=True)}) as sandbox:
        with pytest.raises(ValueError, match="char"):
            await ask(http, sandbox, body())


def test_faults_as_text() -> None:
    texts = [
        "gpt-4.1:latency_ms=200,status=429,first=3,retry_after_s=1.5",
        "openrouter/x:free:hang",
        '*:{"match": "a,b", "drop": true}',
        "gpt-4.1:upstream_id=null",
    ]
    assert faults_from_texts(texts) == {
        "gpt-4.1": (Fault(latency_ms=200, status=429, first=3, retry_after_s=1.5), Fault(upstream_id=None)),
        "openrouter/x:free": (Fault(hang=True),),
        "*": (Fault(match="a,b", drop=True),),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpt-4.1", "is not MODEL:KEY=VALUE"),
        ("gpt-4.1:", "is not MODEL:KEY=VALUE"),
        ("gpt-4.1:latency=3", "'latency' does not exist; did you mean latency_ms"),
        ("gpt-4.1:status=200", "status is '200'"),
        ("gpt-4.1:share=2", "share is '2'"),
        ("gpt-4.1:hang=perhaps", "hang is 'perhaps'"),
        ("gpt-4.1:{nonsense", "is not JSON"),
        ("gpt-4.1:hang,latency=3", "'latency' does not exist"),
    ],
)
def test_wrong_faults_are_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(WrongUsage, match=message) as caught:
        faults_from_texts([text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("document", [[], 5, {"m": 5}, {"m": {"no_such": 1}}])
def test_wrong_faults_in_json(document: object) -> None:
    with pytest.raises(WrongUsage):
        faults_from_json(document)


# Log and life --------------------------------------------------------------------------------------------------------


async def test_what_can_be_seen_and_changed_over_http(http: aiohttp.ClientSession) -> None:
    async with Sandbox() as sandbox:
        root = sandbox.base_url.removesuffix("/v1")
        async with http.post(f"{root}/sandbox/faults", json={"*": {"status": 503}}) as response:
            assert response.status == 200
        assert (await ask(http, sandbox, body()))[0] == 503
        async with http.post(f"{root}/sandbox/faults", json={"*": {"statu": 503}}) as response:
            assert response.status == 400
            assert "did you mean status" in (await response.json())["error"]["message"]
        async with http.get(f"{root}/sandbox/log") as response:
            rows = [json.loads(line) for line in (await response.text()).splitlines()]
        assert [(row["sequence"], row["model"], row["status"]) for row in rows] == [(1, "gpt-4.1", 503)]
        async with http.post(f"{root}/sandbox/reset") as response:
            assert response.status == 200
        assert sandbox.log == ()
        assert (await ask(http, sandbox, body()))[0] == 200


async def test_the_log_file_has_every_request_also_those_that_never_end(
    http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    faults = {"*": Fault(match="hang", hang=True)}
    async with Sandbox(faults=faults, log_path=path) as sandbox:
        await ask(http, sandbox, body())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(http, sandbox, body("hang")), 0.1)
        await ask(http, sandbox, body())
        hanging = asyncio.ensure_future(ask(http, sandbox, body("hang on")))
        await asyncio.sleep(0.05)
        entries = read_log(path)
        assert [entry.sequence for entry in entries] == [1, 2, 3, 4]
        assert [entry.client_stayed for entry in entries] == [True, False, True, None]
        assert entries[:3] == sandbox.log[:3]
        assert entries[0].body_hash == entries[2].body_hash != entries[1].body_hash
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
    with path.open("a") as file:
        file.write('{"event": "received", "sequ')  # a kill in mid-write
    assert len(read_log(path)) == 4


async def test_a_port_that_is_taken_is_one_clear_line() -> None:
    async with Sandbox() as sandbox:
        port = int(sandbox.base_url.split(":")[2].split("/")[0])
        with pytest.raises(RouterError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            await Sandbox(port=port).start()
    assert caught.value.hint


def test_a_thread_starts_and_stops_twice_without_complaint() -> None:
    thread = SandboxThread(Sandbox())
    thread.start()
    assert thread.base_url.startswith("http://127.0.0.1:")
    thread.stop()
    thread.stop()
