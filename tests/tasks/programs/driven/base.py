"""psycopg's pool of connections to a PostgreSQL; the connection's string is the argument."""

import asyncio
import sys

from followed import pipeline
from psycopg_pool import AsyncConnectionPool


async def main():
    async with AsyncConnectionPool(sys.argv[1], min_size=1, max_size=2) as pool:

        async def wait():
            async with pool.connection() as connection:
                cursor = await connection.execute("select 6 * 7, pg_sleep(0.001)")
                assert (await cursor.fetchone())[0] == 42

        print(await pipeline(wait))


asyncio.run(main())
