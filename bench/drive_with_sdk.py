"""Drives the agent with claude-agent-sdk: a callback in this process that allows everything and records nothing."""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultAllow


async def allow(tool, tool_input, context):
    return PermissionResultAllow()


async def main(agent, folder):
    options = ClaudeAgentOptions(cli_path=agent, cwd=folder, can_use_tool=allow)
    async with ClaudeSDKClient(options) as client:
        await client.query("measure")
        async for _ in client.receive_response():
            pass


asyncio.run(main(*sys.argv[1:]))
