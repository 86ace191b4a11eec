"""Libraries whose work is done by scripts, used as their documentation does. Each check ends the program where it fails."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIBRARY, ADDRESS = sys.argv[1:3]
HOST, PORT = ADDRESS.rsplit(":", 1)
URL = f"redis://{HOST}:{PORT}"
checks = 0


def check(what, got, wanted):
    global checks
    checks += 1
    if got != wanted:
        sys.exit(f"FAILED: {what}: {got!r}, and not {wanted!r}")


def until(what, holds):
    global checks
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"FAILED: never: {what}")
        time.sleep(0.05)
    checks += 1


def redis_py():
    import redis

    client = redis.Redis(host=HOST, port=int(PORT), decode_responses=True)
    with client.lock("lock", timeout=5) as lock:
        check("somebody else", client.lock("lock", blocking=False).acquire(), False)
        check("it is owned", lock.owned(), True)
        check("it is extended", lock.extend(5), True)
        check("it begins anew", lock.reacquire(), True)
    check("it is free", client.exists("lock"), 0)
    counter = []
    def work():
        mine = redis.Redis(host=HOST, port=int(PORT))
        for _ in range(20):
            with mine.lock("section", timeout=10, sleep=0.002):
                counter.append(len(counter))
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    check("one at a time", counter, list(range(80)))
    script = client.register_script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
    check("a script", script(keys=["n"], args=["x"]), ["n", "x", 1])
    client.script_flush()
    check("after SCRIPT FLUSH", script(keys=["n"], args=["x"]), ["n", "x", 2])
    pipe = client.pipeline()
    script(keys=["n"], args=["y"], client=pipe)
    check("in a transaction", pipe.get("n").execute(), [["n", "y", 3], "3"])


def rq():
    import operator
    import redis
    from rq import Queue, Retry, SimpleWorker

    client = redis.Redis(host=HOST, port=int(PORT))
    queue = Queue(connection=client)
    jobs = [queue.enqueue(operator.add, number, 1) for number in range(20)]
    failing = queue.enqueue(operator.truediv, 1, 0, retry=Retry(max=1))
    after = queue.enqueue(operator.mul, 6, 7, depends_on=jobs[-1])
    SimpleWorker([queue], connection=client).work(burst=True)
    check("results", [job.latest_result().return_value for job in jobs], list(range(1, 21)))
    check("a job that fails", failing.get_status(refresh=True).value, "failed")
    check("a job that depends on another", after.latest_result().return_value, 42)


CELERY = """
from celery import Celery
app = Celery("tasks", broker=URL, backend=URL)
app.conf.broker_transport_options = {"polling_interval": 0.05}
app.conf.broker_connection_retry_on_startup = True

@app.task
def add(a, b): return a + b

@app.task
def total(numbers): return sum(numbers)

@app.task(bind=True, max_retries=2, default_retry_delay=0)
def second_time(self):
    if self.request.retries == 0: raise self.retry()
    return self.request.retries
"""


def celery():
    directory = tempfile.mkdtemp()
    with open(os.path.join(directory, "tasks.py"), "w") as file:
        file.write(f"URL = {URL!r}\n{CELERY}")
    sys.path.insert(0, directory)
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-l", "ERROR", "--without-mingle"]
    worker = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        import tasks
        from celery import chain, chord, group

        check("a task", tasks.add.delay(1, 2).get(timeout=40), 3)
        check("a chain", chain(tasks.add.s(1, 2), tasks.add.s(4), tasks.add.s(5))().get(timeout=20), 12)
        check("a group", group(tasks.add.s(n, n) for n in range(10))().get(timeout=20), [2 * n for n in range(10)])
        check("a chord", chord(tasks.add.s(n, n) for n in range(10))(tasks.total.s()).get(timeout=20), 90)
        check("a task that is tried again", tasks.second_time.delay().get(timeout=20), 1)
        before = time.monotonic()
        check("a task with a countdown", tasks.add.apply_async((1, 1), countdown=1).get(timeout=20), 2)
        check("it was late", time.monotonic() - before >= 0.9, True)
        answers = tasks.app.control.inspect(timeout=10).ping() or {}
        check("inspect", [answer for answer in answers.values()], [{"ok": "pong"}])
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=30)


def dramatiq():
    import dramatiq as library
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.rate_limits import ConcurrentRateLimiter, WindowRateLimiter
    from dramatiq.rate_limits.backends import RedisBackend

    broker = RedisBroker(url=URL)
    library.set_broker(broker)
    done, failed = [], []

    @library.actor
    def work(number):
        done.append(number)

    @library.actor(max_retries=1, min_backoff=10, max_backoff=20)
    def fail():
        failed.append(1)
        raise ValueError("as it should")

    worker = library.Worker(broker, worker_timeout=100, worker_threads=4)
    worker.start()
    [work.send(number) for number in range(50)]
    work.send_with_options(args=(50,), delay=200)
    fail.send()
    until("all were done", lambda: sorted(done) == list(range(51)))
    until("a failing one is tried again", lambda: len(failed) == 2)
    worker.stop()
    backend = RedisBackend(url=URL)
    mutex = ConcurrentRateLimiter(backend, "mutex", limit=1)
    with mutex.acquire(raise_on_failure=False) as first, mutex.acquire(raise_on_failure=False) as second:
        check("a mutex", (first, second), (True, False))
    window = WindowRateLimiter(backend, "window", limit=3, window=60)
    taken = []
    for _ in range(5):
        with window.acquire(raise_on_failure=False) as allowed:
            taken.append(allowed)
    check("a window", taken, [True, True, True, False, False])


def limits():
    from limits import parse, storage, strategies

    store = storage.storage_from_string(URL)
    for name in ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"]:
        limiter = getattr(strategies, name)(store)
        rate = parse("5/minute")
        hits = [limiter.hit(rate, name, "user") for _ in range(7)]
        check(name, hits, [True] * 5 + [False] * 2)
        check(f"{name}, what is left", limiter.get_window_stats(rate, name, "user").remaining, 0)
        check(f"{name}, another user", limiter.test(rate, name, "other"), True)


def django_redis():
    import django
    from django.conf import settings

    settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"{URL}/1"}})
    django.setup()
    from django.core.cache import cache

    with cache.lock("lock", timeout=5):
        check("somebody else", cache.lock("lock", blocking_timeout=0.1).acquire(), False)
    cache.set("n", 1)
    check("incr", cache.incr("n", 4), 5)
    cache.set_many({"a": 1, "b": 2})
    check("many", dict(cache.get_many(["a", "b"])), {"a": 1, "b": 2})


PROGRAMS = {
    "redis-py": redis_py,
    "rq": rq,
    "celery": celery,
    "dramatiq": dramatiq,
    "limits": limits,
    "django-redis": django_redis,
}
PROGRAMS[LIBRARY]()
print("ok", checks, flush=True)
os._exit(0)
