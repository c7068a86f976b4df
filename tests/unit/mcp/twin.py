"""Two more sample systems for the tests of the hosts: one with an agent, one without an agent."""

from __future__ import annotations

from dataclasses import replace

from holdfast import Component
from tests.unit.mcp.harbour import ship, with_agent

SYSTEM = replace(with_agent(Component("agent", uses=(ship,))), name="twin")
WITHOUT_AGENT = replace(with_agent(None), name="quiet")
