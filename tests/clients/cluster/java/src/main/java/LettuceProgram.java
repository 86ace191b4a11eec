import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.SetArgs;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.pubsub.RedisClusterPubSubAdapter;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** Lettuce's RedisClusterClient against one node that owns all slots. */
public final class LettuceProgram {
    public static void main(String[] arguments) throws Exception {
        var client = RedisClusterClient.create(RedisURI.create("redis://" + arguments[0]));
        var connection = client.connect();
        var commands = connection.sync();
        commands.flushall();
        strings(commands);
        pipeline(connection);
        transaction(connection);
        publish(client, commands);
        blocking(client, commands);
        scan(commands);
        connection.close();
        client.shutdown();
        Check.end();
    }

    private static void strings(RedisAdvancedClusterCommands<String, String> commands) {
        for (var key : Check.KEYS) commands.set(key, "value of " + key, SetArgs.Builder.ex(60));
        for (var key : Check.KEYS) Check.equal("get " + key, commands.get(key), "value of " + key);
        commands.mset(Map.of("a", "1", "b", "2", "c", "3"));
        var values = commands.mget("a", "b", "nosuch", "c").stream().map(value -> value.getValueOrElse("none")).toList();
        Check.equal("mget", values, List.of("1", "2", "none", "3"));
        Check.equal("del", commands.del("a", "b", "c"), 3L);
        Check.equal("dbsize", commands.dbsize(), (long) Check.KEYS.size());
        Check.equal("keyslot", commands.clusterKeyslot("foo"), (long) SlotHash.getSlot("foo"));
    }

    private static void pipeline(StatefulRedisClusterConnection<String, String> connection) throws Exception {
        List<RedisFuture<Long>> replies = new ArrayList<>();
        for (int number = 0; number < 1000; number++) replies.add(connection.async().incr("counter:" + number % 10));
        Check.equal("the last reply of a pipeline", replies.get(999).get(5, TimeUnit.SECONDS), 100L);
    }

    private static void transaction(StatefulRedisClusterConnection<String, String> connection) {
        // This client's clusters have no transactions: those go to the node of their slot.
        var node = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot("{t}:a"));
        var commands = connection.getConnection(node.getNodeId()).sync();
        commands.multi();
        commands.set("{t}:a", "1");
        commands.incr("{t}:a");
        commands.lpush("{t}:b", "x");
        var replies = commands.exec().stream().toList();
        Check.equal("a transaction", replies, List.of("OK", 2L, 1L));
    }

    private static void publish(RedisClusterClient client, RedisAdvancedClusterCommands<String, String> commands)
            throws Exception {
        BlockingQueue<String> messages = new ArrayBlockingQueue<>(2);
        try (var connection = client.connectPubSub()) {
            connection.addListener(new RedisPubSubAdapter<>() {
                @Override public void message(String channel, String message) { messages.add(message); }
            });
            connection.addListener(new RedisClusterPubSubAdapter<>() {
                @Override public void smessage(RedisClusterNode node, String channel, String message) { messages.add(message); }
            });
            connection.sync().subscribe("news");
            Check.equal("publish", commands.publish("news", "hello"), 1L);
            Check.equal("a message", messages.poll(5, TimeUnit.SECONDS), "hello");
            connection.sync().ssubscribe("sharded");
            Check.equal("spublish", commands.spublish("sharded", "there"), 1L);
            Check.equal("a message", messages.poll(5, TimeUnit.SECONDS), "there");
        }
    }

    private static void blocking(RedisClusterClient client, RedisAdvancedClusterCommands<String, String> commands)
            throws Exception {
        try (var waiter = client.connect()) {
            var got = waiter.async().blpop(5, "queue");
            Thread.sleep(200);
            commands.rpush("queue", "element");
            Check.equal("what BLPOP waited for", got.get(6, TimeUnit.SECONDS), KeyValue.just("queue", "element"));
            Check.equal("BLPOP in vain", waiter.sync().blpop(1, "queue"), null);
        }
    }

    private static void scan(RedisAdvancedClusterCommands<String, String> commands) {
        commands.flushall();
        for (var key : Check.KEYS) commands.set(key, "");
        var found = new TreeSet<String>();
        var arguments = ScanArgs.Builder.matches("key:*").limit(7);
        KeyScanCursor<String> page = commands.scan(arguments);
        found.addAll(page.getKeys());
        while (!page.isFinished()) {
            page = commands.scan(page, arguments);
            found.addAll(page.getKeys());
        }
        Check.equal("scan", List.copyOf(found), Check.KEYS);
    }
}
