"""Tools of MCP servers: which may be called, what of them is approved, and the calls themselves.

In: [tools] of router.toml, names of tools, what a model wrote. Out: `Kit`s of tools, answers to calls. The package
`mcp` is loaded when a server is first wanted, not before.
"""

from __future__ import annotations

from router.tools.toolbox import Toolbox, wanted_tools

__all__ = ["Toolbox", "wanted_tools"]
