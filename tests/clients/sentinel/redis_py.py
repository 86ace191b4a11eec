"""redis-py's Sentinel, plain and asyncio, through a failover that somebody asks for and one of a master that ends. Each
check ends the program where it fails."""

import asyncio
import sys
import time

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

SENTINELS = [("127.0.0.1", port) for port in (26379, 26380, 26381)]
checks = 0


def check(what, got, wanted):
    global checks
    checks += 1
    if got != wanted:
        sys.exit(f"FAILED: {what}: {got!r}, and not {wanted!r}")


def until(what, holds):
    global checks
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"FAILED: never: {what}")
        time.sleep(0.1)
    checks += 1


def main():
    # Each of the Sentinels ends the connections of a server whose role it changes.
    again = Retry(ConstantBackoff(0.2), 20)
    sentinel = Sentinel(SENTINELS, socket_timeout=5, retry=again)
    master = sentinel.master_for("main", decode_responses=True)
    first = sentinel.discover_master("main")
    for number in range(100):
        master.set(f"key:{number}", number)
    check("a replica has it", master.wait(1, 10_000), 1)
    replica = sentinel.slave_for("main", decode_responses=True)
    check("it is read from a replica", replica.get("key:7"), "7")
    check("a replica says so", replica.role()[0], "slave")
    sentinel.sentinels[0].sentinel_failover("main")
    written = write_until_master_is_not(sentinel, master, first)
    check("what was acknowledged by a replica is there", int(master.get("counter")) >= written, True)
    until("the old master is a replica", lambda: sentinel.discover_slaves("main") == [first])
    until("it has all", lambda: has_replica(master))
    second = sentinel.discover_master("main")
    asyncio.run(asynchronous())
    end(second)
    written = write_until_master_is_not(sentinel, master, second)
    check("what was acknowledged by a replica is there after a crash", int(master.get("counter")) >= written, True)
    check("and all else", master.get("key:99"), "99")
    print("ok", checks)


def write_until_master_is_not(sentinel, master, old):
    """Writes meanwhile; returns the last value that a replica has acknowledged."""
    written = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            value = master.incr("counter")
            if master.wait(1, 100) >= 1:
                written = value
            if sentinel.discover_master("main") != old and master.role()[0] == "master":
                return written
        except redis.RedisError:
            time.sleep(0.05)
    sys.exit("FAILED: no other master")


def has_replica(master):
    """Whether a replica acknowledges a write; the Sentinels may end the connection meanwhile."""
    try:
        return master.incr("counter") and master.wait(1, 5000) == 1
    except redis.RedisError:
        return False


def end(address):
    """Over a connection of its own that sends nothing twice: the other would send SHUTDOWN to the next master as well."""
    host, port = address
    with redis.Redis(host, port, retry=Retry(NoBackoff(), 0)) as once:
        once.shutdown(nosave=True, now=True, force=True)


async def asynchronous():
    again = AsyncRetry(ConstantBackoff(0.2), 20)
    sentinel = AsyncSentinel(SENTINELS, socket_timeout=5, retry=again)
    master = sentinel.master_for("main", decode_responses=True)
    check("asyncio", await master.get("key:42"), "42")
    async with master.pipeline(transaction=True) as pipe:
        check("a transaction", await pipe.set("a", 1).incr("a").execute(), [True, 2])
    await master.aclose()


main()
