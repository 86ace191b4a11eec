import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.args.SaveMode;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ShutdownParams;

/** Jedis through Sentinels: a failover that somebody asks for, and one of a master that ends. */
public final class JedisSentinelProgram {
    private static final Set<String> SENTINELS = Set.of("127.0.0.1:26379", "127.0.0.1:26380", "127.0.0.1:26381");
    private static int checks = 0;

    public static void main(String[] arguments) throws InterruptedException {
        try (JedisSentinelPool pool = new JedisSentinelPool("main", SENTINELS); Jedis sentinel = new Jedis("127.0.0.1", 26379)) {
            HostAndPort first = pool.getCurrentHostMaster();
            try (Jedis master = pool.getResource()) {
                for (int number = 0; number < 100; number++) {
                    master.set("key:" + number, String.valueOf(number));
                }
            }
            untilThereIsAReplica(pool);
            sentinel.sentinelFailover("main");
            long written = writeUntilMasterIsNot(pool, first);
            check("what was acknowledged by a replica is there", counter(pool) >= written);
            untilThereIsAReplica(pool);
            HostAndPort second = pool.getCurrentHostMaster();
            try (Jedis master = pool.getResource()) {
                master.shutdown(ShutdownParams.shutdownParams().saveMode(SaveMode.NOSAVE).now().force());
            } catch (JedisException ended) {
                // It does not reply.
            }
            written = writeUntilMasterIsNot(pool, second);
            check("what was acknowledged is there after a crash", counter(pool) >= written);
            try (Jedis master = pool.getResource()) {
                check("and all else", "99".equals(master.get("key:99")));
            }
        }
        System.out.println("ok " + checks);
    }

    /** Writes meanwhile; returns the last value that a replica has acknowledged. */
    private static long writeUntilMasterIsNot(JedisSentinelPool pool, HostAndPort old) throws InterruptedException {
        long written = 0;
        long end = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < end) {
            try (Jedis master = pool.getResource()) {
                long value = master.incr("counter");
                if (master.waitReplicas(1, 100) >= 1) {
                    written = value;
                }
                if (!pool.getCurrentHostMaster().equals(old) && master.info("replication").contains("role:master")) {
                    return written;
                }
            } catch (JedisException away) {
                Thread.sleep(50);
            }
        }
        throw fail("no other master");
    }

    private static void untilThereIsAReplica(JedisSentinelPool pool) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < end) {
            try (Jedis master = pool.getResource()) {
                master.incr("counter");
                if (master.waitReplicas(1, 1000) == 1) {
                    checks++;
                    return;
                }
            } catch (JedisException away) {
                Thread.sleep(50);
            }
        }
        throw fail("never: it has a replica");
    }

    private static long counter(JedisSentinelPool pool) {
        try (Jedis master = pool.getResource()) {
            return Long.parseLong(master.get("counter"));
        }
    }

    private static void check(String what, boolean holds) {
        checks++;
        if (!holds) {
            throw fail(what);
        }
    }

    private static RuntimeException fail(String why) {
        System.out.println("FAILED: " + why);
        System.exit(1);
        return new IllegalStateException(why);
    }
}
