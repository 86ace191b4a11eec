// go-redis's ClusterClient against one node that owns all slots. Each check ends the program where it fails.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	checks = 0
)

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{os.Args[1]}})
	defer client.Close()
	must(client.FlushDB(ctx).Err())
	strings(client)
	pipeline(client)
	transaction(client)
	publish(client)
	blocking(client)
	scan(client)
	fmt.Println("ok", checks)
}

func strings(client *redis.ClusterClient) {
	for _, key := range keys() {
		must(client.Set(ctx, key, "value of "+key, time.Minute).Err())
	}
	for _, key := range keys() {
		check("get "+key, client.Get(ctx, key).Val(), "value of "+key)
	}
	must(client.MSet(ctx, "a", "1", "b", "2", "c", "3").Err())
	check("mget", client.MGet(ctx, "a", "b", "nosuch", "c").Val(), []any{"1", "2", nil, "3"})
	check("a missing key", client.Get(ctx, "nosuch").Err(), redis.Nil)
	check("del", client.Del(ctx, "a", "b", "c").Val(), int64(3))
	check("dbsize", client.DBSize(ctx).Val(), int64(len(keys())))
	check("keyslot", client.ClusterKeySlot(ctx, "foo").Val(), int64(12182))
}

func pipeline(client *redis.ClusterClient) {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			pipe.Incr(ctx, fmt.Sprintf("counter:%d", i%10))
		}
		return nil
	})
	must(err)
	check("replies of a pipeline", len(replies), 1000)
	check("the last of them", replies[999].(*redis.IntCmd).Val(), int64(100))
}

func transaction(client *redis.ClusterClient) {
	replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{t}:a", "1", 0)
		pipe.Incr(ctx, "{t}:a")
		pipe.LPush(ctx, "{t}:b", "x")
		return nil
	})
	must(err)
	check("a transaction", replies[1].(*redis.IntCmd).Val(), int64(2))
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Set(ctx, "{t}:a", "changed", 0).Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "{t}:a", "lost", 0)
			return nil
		})
		return err
	}, "{t}:a")
	check("a watched key that changed", err, redis.TxFailedErr)
	check("what the transaction left", client.Get(ctx, "{t}:a").Val(), "changed")
}

func publish(client *redis.ClusterClient) {
	plain, sharded := client.Subscribe(ctx, "news"), client.SSubscribe(ctx, "sharded")
	defer plain.Close()
	defer sharded.Close()
	_, err := plain.Receive(ctx)
	must(err)
	_, err = sharded.Receive(ctx)
	must(err)
	check("publish", client.Publish(ctx, "news", "hello").Val(), int64(1))
	check("spublish", client.SPublish(ctx, "sharded", "there").Val(), int64(1))
	for _, one := range []struct {
		from *redis.PubSub
		want string
	}{{plain, "hello"}, {sharded, "there"}} {
		message, err := one.from.ReceiveTimeout(ctx, 5*time.Second)
		must(err)
		check("a message", message.(*redis.Message).Payload, one.want)
	}
}

func blocking(client *redis.ClusterClient) {
	got := make(chan []string)
	go func() { got <- client.BLPop(ctx, 5*time.Second, "queue").Val() }()
	time.Sleep(100 * time.Millisecond)
	must(client.RPush(ctx, "queue", "element").Err())
	check("what BLPOP waited for", <-got, []string{"queue", "element"})
	check("BLPOP in vain", client.BLPop(ctx, time.Second, "queue").Err(), redis.Nil)
}

func scan(client *redis.ClusterClient) {
	must(client.FlushDB(ctx).Err())
	for _, key := range keys() {
		must(client.Set(ctx, key, "", 0).Err())
	}
	found := map[string]bool{}
	must(client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		pages := node.Scan(ctx, 0, "key:*", 7).Iterator()
		for pages.Next(ctx) {
			found[pages.Val()] = true
		}
		return pages.Err()
	}))
	all := []string{}
	for key := range found {
		all = append(all, key)
	}
	sort.Strings(all)
	check("scan", all, keys())
}

func keys() []string {
	keys := []string{}
	for i := 100; i < 200; i++ {
		keys = append(keys, fmt.Sprintf("key:%d", i))
	}
	return keys
}

func check(what string, got, want any) {
	checks++
	if !reflect.DeepEqual(got, want) {
		fmt.Printf("FAILED: %s: %v, and not %v\n", what, got, want)
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
