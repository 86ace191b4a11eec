import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis's JedisCluster against one node that owns all slots. */
public final class JedisProgram {
    public static void main(String[] arguments) throws Exception {
        var address = HostAndPort.from(arguments[0]);
        try (var cluster = new JedisCluster(address)) {
            cluster.flushAll();
            strings(cluster);
            pipeline(cluster);
            transaction(cluster, address);
            publish(cluster);
            blocking(cluster);
            scan(cluster);
        }
        Check.end();
    }

    private static void strings(JedisCluster cluster) {
        for (var key : Check.KEYS) cluster.set(key, "value of " + key, SetParams.setParams().ex(60));
        for (var key : Check.KEYS) Check.equal("get " + key, cluster.get(key), "value of " + key);
        // This client takes keys of one slot alone.
        cluster.mset("{m}a", "1", "{m}b", "2");
        Check.equal("mget", cluster.mget("{m}a", "{m}b"), List.of("1", "2"));
        Check.equal("del", cluster.del("{m}a", "{m}b"), 2L);
    }

    private static void pipeline(JedisCluster cluster) {
        try (var pipe = cluster.pipelined()) {
            for (int number = 0; number < 999; number++) pipe.incr("counter:" + number % 10);
            var last = pipe.incr("counter:9");
            pipe.sync();
            Check.equal("the last reply of a pipeline", last.get(), 100L);
        }
    }

    private static void transaction(JedisCluster cluster, HostAndPort address) {
        // This client's clusters have no transactions: those go to a node.
        var node = cluster.getClusterNodes().get(address.toString());
        try (var connection = new Jedis(node.getResource())) {
            var transaction = connection.multi();
            transaction.set("{t}:a", "1");
            transaction.incr("{t}:a");
            transaction.lpush("{t}:b", "x");
            Check.equal("a transaction", transaction.exec(), List.of("OK", 2L, 1L));
        }
    }

    private static void publish(JedisCluster cluster) throws Exception {
        BlockingQueue<String> messages = new ArrayBlockingQueue<>(2);
        var subscribed = new CountDownLatch(2);
        var plain = new JedisPubSub() {
            @Override public void onSubscribe(String channel, int count) { subscribed.countDown(); }
            @Override public void onMessage(String channel, String message) { messages.add(message); }
        };
        var sharded = new JedisShardedPubSub() {
            @Override public void onSSubscribe(String channel, int count) { subscribed.countDown(); }
            @Override public void onSMessage(String channel, String message) { messages.add(message); }
        };
        var first = CompletableFuture.runAsync(() -> cluster.subscribe(plain, "news"));
        var second = CompletableFuture.runAsync(() -> cluster.ssubscribe(sharded, "sharded"));
        Check.equal("both subscribed", subscribed.await(5, TimeUnit.SECONDS), true);
        Check.equal("publish", cluster.publish("news", "hello"), 1L);
        Check.equal("a message", messages.poll(5, TimeUnit.SECONDS), "hello");
        Check.equal("spublish", cluster.spublish("sharded", "there"), 1L);
        Check.equal("a message", messages.poll(5, TimeUnit.SECONDS), "there");
        plain.unsubscribe();
        sharded.sunsubscribe();
        CompletableFuture.allOf(first, second).get(5, TimeUnit.SECONDS);
    }

    private static void blocking(JedisCluster cluster) throws Exception {
        var got = CompletableFuture.supplyAsync(() -> cluster.blpop(5, "queue"));
        Thread.sleep(200);
        cluster.rpush("queue", "element");
        Check.equal("what BLPOP waited for", got.get(6, TimeUnit.SECONDS), List.of("queue", "element"));
        Check.equal("BLPOP in vain", cluster.blpop(1, "queue"), null);
    }

    private static void scan(JedisCluster cluster) {
        cluster.flushAll();
        for (var key : Check.KEYS) cluster.set(key, "");
        var found = new TreeSet<String>();
        for (var node : cluster.getClusterNodes().values()) {
            try (var connection = new Jedis(node.getResource())) {
                ScanResult<String> page;
                String cursor = ScanParams.SCAN_POINTER_START;
                do {
                    page = connection.scan(cursor, new ScanParams().match("key:*").count(7));
                    found.addAll(page.getResult());
                    cursor = page.getCursor();
                } while (!page.isCompleteIteration());
            }
        }
        Check.equal("scan", List.copyOf(found), Check.KEYS);
    }
}
