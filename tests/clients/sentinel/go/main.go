// go-redis through Sentinels: a failover that somebody asks for, and one of a master that ends. Each check ends the program
// where it fails.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx       = context.Background()
	checks    = 0
	sentinels = []string{"127.0.0.1:26379", "127.0.0.1:26380", "127.0.0.1:26381"}
)

func main() {
	master := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: sentinels})
	defer master.Close()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: sentinels[0]})
	defer sentinel.Close()
	first := address(sentinel)
	for number := 0; number < 100; number++ {
		must(master.Set(ctx, fmt.Sprint("key:", number), number, 0).Err())
	}
	// WAIT is of the connection that has written: one of a pool may have written nothing, and then it waits for all.
	check("a replica has it", master.Wait(ctx, 1, 10*time.Second).Val(), int64(1))
	replica := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: sentinels, ReplicaOnly: true})
	check("it is read from a replica", replica.Get(ctx, "key:7").Val(), "7")
	must(replica.Close())
	must(sentinel.Failover(ctx, "main").Err())
	written := writeUntilMasterIsNot(master, sentinel, first)
	check("what was acknowledged by a replica is there", counter(master) >= written, true)
	until("it has a replica again", func() bool {
		return master.Incr(ctx, "counter").Err() == nil && master.Wait(ctx, 1, time.Second).Val() == 1
	})
	second := address(sentinel)
	end(second)
	written = writeUntilMasterIsNot(master, sentinel, second)
	check("what was acknowledged is there after a crash", counter(master) >= written, true)
	check("and all else", master.Get(ctx, "key:99").Val(), "99")
	fmt.Println("ok", checks)
}

// Over a connection of its own that sends nothing twice: SHUTDOWN has no reply, and the other would send it to the next
// master as well.
func end(address string) {
	once := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	defer once.Close()
	once.ShutdownNoSave(ctx)
}

// Writes meanwhile; returns the last value that a replica has acknowledged.
func writeUntilMasterIsNot(master *redis.Client, sentinel *redis.SentinelClient, old string) int64 {
	written := int64(0)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var value *redis.IntCmd
		var replicas *redis.Cmd
		// In one pipeline, so that both are of one connection.
		_, err := master.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			value = pipe.Incr(ctx, "counter")
			replicas = pipe.Do(ctx, "WAIT", 1, 100)
			return nil
		})
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if count, err := replicas.Int64(); err == nil && count >= 1 {
			written = value.Val()
		}
		if address(sentinel) != old && strings.Contains(master.Info(ctx, "replication").Val(), "role:master") {
			return written
		}
	}
	fail("no other master")
	return 0
}

func counter(master *redis.Client) int64 {
	value, err := strconv.ParseInt(master.Get(ctx, "counter").Val(), 10, 64)
	must(err)
	return value
}

func address(sentinel *redis.SentinelClient) string {
	return strings.Join(sentinel.GetMasterAddrByName(ctx, "main").Val(), ":")
}

func until(what string, holds func() bool) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if holds() {
			checks++
			return
		}
	}
	fail("never: " + what)
}

func check(what string, got, wanted any) {
	checks++
	if !reflect.DeepEqual(got, wanted) {
		fail(fmt.Sprintf("%s: %v, and not %v", what, got, wanted))
	}
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Println("FAILED:", why)
	os.Exit(1)
}
