"""uvicorn, and httpx as its client, on loopback."""

import asyncio
import socket

import httpx
import uvicorn
from followed import pipeline


async def app(scope, receive, send):
    await asyncio.sleep(0.001)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def main():
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning"))
    serving = asyncio.create_task(server.serve([listening]), name="server")
    async with httpx.AsyncClient(trust_env=False) as client:

        async def wait():
            assert (await client.get(f"http://127.0.0.1:{port}/ping")).text == "/ping"

        print(await pipeline(wait))
    server.should_exit = True
    await serving


asyncio.run(main())
