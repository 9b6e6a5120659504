"""Keys: UUIDv7 that rise, and names that always give the same id."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from router.ledger.keys import named_id, new_id


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before_ms = time.time_ns() // 1_000_000
    key = uuid.UUID(new_id())
    # RFC 9562: 48 bits of milliseconds, version 7, variant 10; counting on may put it a moment ahead of the clock.
    assert (key.version, key.variant) == (7, uuid.RFC_4122)
    assert before_ms <= key.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_of_a_process_rise_and_never_repeat() -> None:
    keys = [new_id() for _ in range(20_000)]
    assert keys == sorted(keys)
    assert len(set(keys)) == 20_000


def test_threads_never_share_an_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: new_id(), range(8_000)))
    assert len(set(keys)) == 8_000


def test_a_forked_process_makes_ids_of_its_own() -> None:
    """Both would count on from the same random number, drawn before the fork."""
    new_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, "".join(new_id() for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reading, 36 * 100).decode()
    os.close(reading)
    os.close(writing)
    theirs = {text[at + 14 : at + 36] for at in range(0, len(text), 36)}  # what follows the milliseconds
    assert len(theirs) == 100
    assert theirs.isdisjoint(new_id()[14:] for _ in range(100))


def test_a_named_id_depends_on_every_part_and_on_nothing_else() -> None:
    assert named_id("file", 1) == named_id("file", "1")
    assert len({named_id("file", 1), named_id("file", 2), named_id("file1"), named_id("fil", "e1")}) == 4


def test_a_named_id_is_the_hash_that_rfc_9562_says() -> None:
    # Version 5: the first 16 bytes of SHA-1(namespace, name), version and variant bits set. The namespace is written
    # out again here: were it ever changed, every import would be added a second time.
    digest = hashlib.sha1(
        bytes.fromhex("8c2f2f0e6f0b4d539b5e3f5d2a1c7e64") + b"file\x1f1", usedforsecurity=False
    ).digest()
    first = bytearray(digest[:16])
    first[6] = first[6] & 0x0F | 0x50
    first[8] = first[8] & 0x3F | 0x80
    assert named_id("file", 1) == str(uuid.UUID(bytes=bytes(first)))
