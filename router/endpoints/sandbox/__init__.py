"""A local OpenAI-compatible server that stands in for every vendor: deterministic, countable, and wrong on request.

async with Sandbox(faults={"gpt-4.1": Fault(latency_ms=200)}) as sandbox:
    ... sandbox.base_url, sandbox.log
"""

from router.endpoints.sandbox.faults import EVERY_MODEL, Fault, faults_from_json, faults_from_texts
from router.endpoints.sandbox.log import LogEntry, read_log
from router.endpoints.sandbox.server import KNOWN_MODELS, Sandbox, SandboxThread

__all__ = [
    "EVERY_MODEL",
    "KNOWN_MODELS",
    "Fault",
    "LogEntry",
    "Sandbox",
    "SandboxThread",
    "faults_from_json",
    "faults_from_texts",
    "read_log",
]
