"""What a request says, as the stand-in server reads it: rendered text, token counts, cached prefixes.

In: the body of a chat completion. Out: a frozen `Prompt`.
Rule: a token is four characters of the rendered prompt (tools first, then each message as `role`, newline, content,
newline), begun ones counted whole. It is nobody's tokenizer, but it is simple enough to check by hand.
Invariant: the count depends on the body alone; a cached prefix counts only once a request with it has been answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

CHARACTERS_PER_TOKEN = 4
# OpenAI caches prompts from 1,024 tokens on, in steps of 128 (platform.openai.com/docs/guides/prompt-caching).
CACHE_FROM_TOKENS = 1024
CACHE_STEP_TOKENS = 128
_MOST_REMEMBERED_PREFIXES = 1_000_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's prompt.

    Args:
        rendered: everything the model would read.
        asked: the text of the last message of the user; empty where there is none.
        all_text: the text of all messages, system ones included.
    """

    rendered: str
    asked: str
    all_text: str

    @property
    def input_tokens(self) -> int:
        """Tokens of the rendered prompt, cached ones included."""
        return count_tokens(self.rendered)


def count_tokens(text: str) -> int:
    """Return the tokens of a text: its characters divided by four, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def read_prompt(body: Mapping[str, Any]) -> Prompt:
    """Return the prompt of a chat completion's body.

    Raises:
        ValueError: `messages` is not a list of messages with at least one in it.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages: a list of at least one message is required")
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise ValueError("messages: every message must be an object with a role")
    tools = body.get("tools")
    texts = [_text_of(message) for message in messages]
    parts = [json.dumps(tools, sort_keys=True) + "\n"] if tools else []
    parts += [f"{message['role']}\n{text}\n" for message, text in zip(messages, texts, strict=True)]
    return Prompt("".join(parts), _last_asked(messages, texts), "\n".join(texts))


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        text = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    else:
        text = ""
    calls = message.get("tool_calls")
    return text + (json.dumps(calls, sort_keys=True) if calls else "")


def _last_asked(messages: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> str:
    for message, text in zip(reversed(messages), reversed(texts), strict=True):
        if message["role"] == "user":
            return text
    return ""


class PrefixCache:
    """The prompt prefixes that a model has already answered, each remembered as a short hash."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def cached_tokens(self, model: str, prompt: Prompt) -> int:
        """Return how many of the prompt's leading tokens this model has answered before: 0, or 1,024 + n x 128."""
        cached = 0
        for tokens, digest in _prefixes(model, prompt.rendered):
            if digest not in self._known:
                break
            cached = tokens
        return cached

    def remember(self, model: str, prompt: Prompt) -> None:
        """Take the prompt's prefixes as answered from now on."""
        if len(self._known) > _MOST_REMEMBERED_PREFIXES:
            self._known.clear()
        self._known.update(digest for _, digest in _prefixes(model, prompt.rendered))


def _prefixes(model: str, rendered: str) -> Iterator[tuple[int, bytes]]:
    """Yield (tokens, hash) for each prefix long enough to be cached, shortest first."""
    whole_tokens = len(rendered) // CHARACTERS_PER_TOKEN
    running, start = blake2b(model.encode(), digest_size=8), 0
    for tokens in range(CACHE_FROM_TOKENS, whole_tokens + 1, CACHE_STEP_TOKENS):
        end = tokens * CHARACTERS_PER_TOKEN
        running.update(rendered[start:end].encode("utf-8", "surrogatepass"))
        start = end
        yield tokens, running.digest()
