"""aiohttp on both ends, on loopback."""

import asyncio
import sys

from aiohttp import ClientSession, web
from followed import pipeline


async def pong(request):
    await asyncio.sleep(0.001)
    return web.json_response({"pong": request.path})


async def main():
    app = web.Application()
    app.router.add_get("/ping", pong)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with ClientSession() as session:

        async def wait():
            async with session.get(f"http://127.0.0.1:{port}/ping") as response:
                assert (await response.json())["pong"] == "/ping"

        print(await pipeline(wait))
    await runner.cleanup()


if "uvloop" in sys.argv:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
