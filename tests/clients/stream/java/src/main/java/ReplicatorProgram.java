import com.moilioncircle.redis.replicator.RedisReplicator;
import com.moilioncircle.redis.replicator.Replicator;
import com.moilioncircle.redis.replicator.cmd.CommandName;
import com.moilioncircle.redis.replicator.cmd.impl.DefaultCommand;
import com.moilioncircle.redis.replicator.cmd.parser.DefaultCommandParser;
import com.moilioncircle.redis.replicator.cmd.parser.PingParser;
import com.moilioncircle.redis.replicator.cmd.parser.ReplConfParser;
import com.moilioncircle.redis.replicator.event.Event;
import com.moilioncircle.redis.replicator.rdb.dump.DumpRdbVisitor;
import com.moilioncircle.redis.replicator.rdb.dump.datatype.DumpFunction;
import com.moilioncircle.redis.replicator.rdb.dump.datatype.DumpKeyValuePair;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.args.FunctionRestorePolicy;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.RestoreParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.util.SafeEncoder;

/** redis-replicator follows the server at 6379 as a replica does; what it reads is done at the one at 6380. */
public final class ReplicatorProgram {
    private static final int PORT = 6379;
    private static final int COPY = 6380;
    /** What a stream may have in it: whatever is not registered is dropped by the library. */
    private static final List<String> COMMANDS = List.of(
        "SELECT", "MULTI", "EXEC", "SET", "MSET", "DEL", "UNLINK", "INCR", "INCRBY", "APPEND", "SETRANGE", "PEXPIREAT",
        "PERSIST", "RPUSH", "LPUSH", "LPOP", "RPOP", "LTRIM", "LREM", "LSET", "SADD", "SREM", "HSET", "HDEL", "HINCRBY",
        "ZADD", "ZREM", "ZINCRBY", "XADD", "XGROUP", "XCLAIM", "XACK", "XSETID", "PFADD", "RENAME", "COPY", "FLUSHDB",
        "FLUSHALL", "FUNCTION", "SUNIONSTORE", "RESTORE", "PUBLISH");

    private static final AtomicInteger snapshots = new AtomicInteger();
    private static final AtomicReference<Throwable> failure = new AtomicReference<>();
    private static int checks = 0;

    public static void main(String[] arguments) throws Exception {
        try (Jedis master = new Jedis("127.0.0.1", PORT); Jedis copy = new Jedis("127.0.0.1", COPY)) {
            Random random = new Random(7);
            write(master, random, 3000);
            master.functionLoad("#!lua name=counts\nredis.register_function('count', function(keys) "
                + "redis.call('INCR', keys[1]) return redis.call('SADD', keys[2], redis.call('GET', keys[1])) end)");
            Thread follower = new Thread(ReplicatorProgram::follow);
            follower.setDaemon(true);
            follower.start();
            untilEqual(master, copy, "after a full synchronization");
            check("one snapshot", snapshots.get() == 1);
            for (int cut = 0; cut < 5; cut++) {
                write(master, random, 1000);
                for (int call = 0; call < 20; call++) {
                    master.fcall("count", List.of("count:" + call, "counted"), List.of());
                }
                master.clientKill(ClientKillParams.clientKillParams().type(ClientType.SLAVE));
                write(master, random, 200);
                untilEqual(master, copy, "after link " + cut + " was cut");
            }
            check("the library has come, too", copy.functionList().size() == 1);
            check("and no other snapshot", snapshots.get() == 1 && master.info("stats").contains("sync_full:1\r\n"));
            check("by partial synchronizations", master.info("stats").contains("sync_partial_ok:5\r\n"));
        }
        System.out.println("ok " + checks);
        System.exit(0);
    }

    private static void follow() {
        try (Jedis copy = new Jedis("127.0.0.1", COPY); Replicator replicator = new RedisReplicator("redis://127.0.0.1:" + PORT)) {
            replicator.setRdbVisitor(new DumpRdbVisitor(replicator));
            COMMANDS.forEach(name -> replicator.addCommandParser(CommandName.name(name), new DefaultCommandParser()));
            replicator.addCommandParser(CommandName.name("PING"), new PingParser());
            replicator.addCommandParser(CommandName.name("REPLCONF"), new ReplConfParser());
            replicator.addEventListener((its, event) -> {
                try {
                    take(copy, event);
                } catch (Throwable thrown) {
                    failure.compareAndSet(null, thrown);
                }
            });
            replicator.open();
        } catch (Throwable thrown) {
            failure.compareAndSet(null, thrown);
        }
    }

    private static void take(Jedis copy, Event event) {
        if (event instanceof com.moilioncircle.redis.replicator.event.PreRdbSyncEvent) {
            snapshots.incrementAndGet();
        } else if (event instanceof DumpFunction function) {
            copy.functionRestore(function.getSerialized(), FunctionRestorePolicy.REPLACE);
        } else if (event instanceof DumpKeyValuePair pair) {
            copy.select((int) pair.getDb().getDbNumber());
            RestoreParams replace = RestoreParams.restoreParams().replace().absTtl();
            copy.restore(pair.getKey(), pair.getExpiredMs() == null ? 0 : pair.getExpiredMs(), pair.getValue(), replace);
        } else if (event instanceof DefaultCommand command) {
            copy.sendCommand(() -> command.getCommand(), command.getArgs());
        }
    }

    /** Values of every type, in two databases, with transactions. */
    private static void write(Jedis master, Random random, int commands) {
        for (int number = 0; number < commands; number++) {
            String key = "key:" + random.nextInt(500);
            String value = "v".repeat(random.nextInt(100)) + number;
            switch (random.nextInt(12)) {
                case 0 -> master.set("s" + key, value);
                case 1 -> master.rpush("l" + key, value, "second");
                case 2 -> master.sadd("e" + key, String.valueOf(random.nextInt(1000)), value);
                case 3 -> master.hset("h" + key, Map.of("field" + random.nextInt(200), value, "other", "x"));
                case 4 -> master.zadd("z" + key, random.nextDouble() * 1000, value);
                case 5 -> master.xadd("x" + key, new HashMap<>(Map.of("field", value)), XAddParams.xAddParams().maxLen(20));
                case 6 -> master.pfadd("p" + key, value);
                case 7 -> master.incrBy("n" + key, random.nextInt());
                case 8 -> master.del("s" + key, "l" + key, "h" + key);
                case 9 -> master.pexpire("s" + key, 10_000_000);
                case 10 -> master.lpop("l" + key);
                default -> {
                    Transaction both = master.multi();
                    both.incr("both:" + random.nextInt(20));
                    both.rpush("log", value);
                    both.ltrim("log", -50, -1);
                    both.exec();
                }
            }
            if (number % 500 == 499) {
                master.select(random.nextInt(2));
            }
        }
    }

    private static void untilEqual(Jedis master, Jedis copy, String when) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!digest(master).equals(digest(copy))) {
            if (failure.get() != null) {
                throw new Exception("FAILED: " + when, failure.get());
            }
            if (System.nanoTime() > end) {
                System.out.println("FAILED: the copy differs " + when + ": " + master.dbSize() + " and " + copy.dbSize() + " keys");
                System.exit(1);
            }
            Thread.sleep(100);
        }
        checks++;
    }

    private static String digest(Jedis server) {
        return SafeEncoder.encode((byte[]) server.sendCommand(() -> "DEBUG".getBytes(StandardCharsets.US_ASCII), "DIGEST"));
    }

    private static void check(String what, boolean holds) {
        if (!holds) {
            System.out.println("FAILED: not so: " + what);
            System.exit(1);
        }
        checks++;
    }
}
