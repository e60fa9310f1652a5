"""An agent of Google's Agent Development Kit with its own spans."""

# The snippet of the page goes here.

import asyncio

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests.clients.apps.exercises import PROMPT


def weather(city: str) -> str:
    """The weather there."""
    return f"rain in {city}"


async def main() -> None:
    agent = Agent(name="helper", model="gemini-2.5-flash", instruction="Answer.", tools=[weather])
    runner = InMemoryRunner(agent=agent, app_name="checkout-bot")
    session = await runner.session_service.create_session(app_name="checkout-bot", user_id="user-7")
    asked = types.Content(role="user", parts=[types.Part(text=PROMPT)])
    async for _ in runner.run_async(user_id="user-7", session_id=session.id, new_message=asked):
        pass


asyncio.run(main())
