import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson, whose locks, semaphores, maps and limiters are scripts. Each check ends the program where it fails. */
public final class RedissonProgram {
    private static int checks = 0;

    private static void check(String what, Object got, Object wanted) {
        checks += 1;
        if (!Objects.equals(got, wanted)) {
            System.out.println("FAILED: " + what + ": " + got + ", and not " + wanted);
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress("redis://" + arguments[1]);
        var client = Redisson.create(config);
        locks(client);
        others(client);
        collections(client);
        System.out.println("ok " + checks);
        System.exit(0);
    }

    private static void locks(RedissonClient client) throws Exception {
        var lock = client.getLock("lock");
        lock.lock(10, TimeUnit.SECONDS);
        lock.lock(10, TimeUnit.SECONDS);
        check("it is held twice", lock.getHoldCount(), 2);
        var threads = Executors.newFixedThreadPool(4);
        check("another thread", threads.submit(() -> client.getLock("lock").tryLock()).get(), false);
        lock.unlock();
        lock.unlock();
        check("it is free", lock.isLocked(), false);
        var counter = new AtomicInteger();
        var latch = new CountDownLatch(4);
        for (int thread = 0; thread < 4; thread += 1) {
            threads.submit(() -> {
                for (int round = 0; round < 10; round += 1) {
                    var section = client.getFairLock("section");
                    section.lock();
                    int seen = counter.get();
                    counter.set(seen + 1);
                    section.unlock();
                }
                latch.countDown();
            });
        }
        check("all came to their end", latch.await(30, TimeUnit.SECONDS), true);
        check("one at a time", counter.get(), 40);
        var both = client.getReadWriteLock("both");
        both.readLock().lock();
        check("a second reader", threads.submit(() -> client.getReadWriteLock("both").readLock().tryLock()).get(), true);
        check("a writer", threads.submit(() -> client.getReadWriteLock("both").writeLock().tryLock()).get(), false);
        var many = client.getMultiLock(client.getLock("x"), client.getLock("y"), client.getLock("z"));
        check("several at once", many.tryLock(1, 5, TimeUnit.SECONDS), true);
        many.unlock();
        threads.shutdownNow();
    }

    private static void others(RedissonClient client) throws Exception {
        var semaphore = client.getSemaphore("semaphore");
        check("permits", semaphore.trySetPermits(2), true);
        check("they run out", semaphore.tryAcquire() && semaphore.tryAcquire() && !semaphore.tryAcquire(), true);
        var limiter = client.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, 3, 10, RateIntervalUnit.SECONDS);
        int allowed = 0;
        for (int attempt = 0; attempt < 5; attempt += 1) {
            allowed += limiter.tryAcquire() ? 1 : 0;
        }
        check("a rate", allowed, 3);
        var latch = client.getCountDownLatch("latch");
        latch.trySetCount(1);
        client.getCountDownLatch("latch").countDown();
        check("a latch", latch.await(5, TimeUnit.SECONDS), true);
        var value = client.getAtomicLong("number");
        check("compare and set", value.compareAndSet(0, 5), true);
        check("the number", value.addAndGet(3), 8L);
    }

    private static void collections(RedissonClient client) {
        var map = client.<String, String>getMapCache("map");
        map.put("a", "1", 1, TimeUnit.MINUTES);
        check("put if absent", map.putIfAbsent("a", "2"), "1");
        check("replace", map.replace("a", "1", "3"), true);
        check("its value", map.get("a"), "3");
        var queue = client.<String>getDelayedQueue(client.getBlockingQueue("queue"));
        queue.offer("late", 200, TimeUnit.MILLISECONDS);
        try {
            check("what comes late", client.<String>getBlockingQueue("queue").poll(10, TimeUnit.SECONDS), "late");
        } catch (InterruptedException interrupted) {
            check("it is not interrupted", false, true);
        }
        var bloom = client.<String>getBloomFilter("bloom");
        check("a filter", bloom.tryInit(1000, 0.01), true);
        check("added", bloom.add("x") && bloom.contains("x"), true);
    }
}
