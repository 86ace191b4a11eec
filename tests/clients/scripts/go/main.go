// Libraries whose work is done by scripts, used as their documentation does. Each check ends the program where it fails.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	background = context.Background()
	checks     = 0
)

func check(what string, got, wanted any) {
	checks++
	if !reflect.DeepEqual(got, wanted) {
		fmt.Printf("FAILED: %s: %v, and not %v\n", what, got, wanted)
		os.Exit(1)
	}
}

func must(what string, err error) {
	check(what, err, nil)
}

func until(what string, holds func() bool) {
	for tries := 0; tries < 600; tries++ {
		if holds() {
			checks++
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	check(what, "never", "at last")
}

func main() {
	library, address := os.Args[1], os.Args[2]
	programs := map[string]func(string){
		"asynq": tasks, "redsync": mutexes, "redis_rate": rates, "redislock": locks, "go-redis": scripts,
	}
	time.AfterFunc(60*time.Second, func() { check("the end", "never", "at last") })
	programs[library](address)
	fmt.Println("ok", checks)
}

func tasks(address string) {
	options := asynq.RedisClientOpt{Addr: address}
	var done, failed, late atomic.Int64
	mux := asynq.NewServeMux()
	mux.HandleFunc("work", func(context.Context, *asynq.Task) error { done.Add(1); return nil })
	mux.HandleFunc("late", func(context.Context, *asynq.Task) error { late.Add(1); return nil })
	mux.HandleFunc("fail", func(context.Context, *asynq.Task) error {
		failed.Add(1)
		return fmt.Errorf("as it should: %w", asynq.SkipRetry)
	})
	config := asynq.Config{Concurrency: 4, LogLevel: asynq.FatalLevel, DelayedTaskCheckInterval: 200 * time.Millisecond}
	server := asynq.NewServer(options, config)
	must("the server starts", server.Start(mux))
	client := asynq.NewClient(options)
	for number := 0; number < 100; number++ {
		_, err := client.Enqueue(asynq.NewTask("work", nil))
		must("enqueue", err)
	}
	_, err := client.Enqueue(asynq.NewTask("late", nil), asynq.ProcessIn(time.Second))
	must("enqueue for later", err)
	_, err = client.Enqueue(asynq.NewTask("fail", nil))
	must("enqueue what fails", err)
	_, err = client.Enqueue(asynq.NewTask("work", nil), asynq.TaskID("same"), asynq.Retention(time.Minute))
	must("enqueue by id", err)
	_, err = client.Enqueue(asynq.NewTask("work", nil), asynq.TaskID("same"), asynq.Retention(time.Minute))
	check("a second of one id", err != nil, true)
	until("all were done", func() bool { return done.Load() == 101 && late.Load() == 1 && failed.Load() == 1 })
	inspector := asynq.NewInspector(options)
	until("what failed is archived", func() bool {
		info, err := inspector.GetQueueInfo("default")
		return err == nil && info.Archived == 1 && info.Pending == 0
	})
	server.Shutdown()
}

func mutexes(address string) {
	pool := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: address})))
	mutex := pool.NewMutex("mutex", redsync.WithExpiry(5*time.Second))
	must("lock", mutex.Lock())
	check("somebody else", pool.NewMutex("mutex", redsync.WithTries(1)).Lock() != nil, true)
	is, err := mutex.Extend()
	must("extend", err)
	check("it is extended", is, true)
	is, err = mutex.Unlock()
	must("unlock", err)
	check("it is unlocked", is, true)
	must("the next one", pool.NewMutex("mutex", redsync.WithTries(1)).Lock())
}

func rates(address string) {
	limiter := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: address}))
	for number := 0; number < 10; number++ {
		result, err := limiter.Allow(background, "user", redis_rate.PerMinute(10))
		must("allow", err)
		check("allowed", result.Allowed, 1)
	}
	result, err := limiter.Allow(background, "user", redis_rate.PerMinute(10))
	must("allow", err)
	check("one too many", result.Allowed, 0)
	check("it says when", result.RetryAfter > 0, true)
	must("reset", limiter.Reset(background, "user"))
	result, err = limiter.AllowAtMost(background, "user", redis_rate.PerMinute(10), 20)
	must("at most", err)
	check("at most", result.Allowed, 10)
}

func locks(address string) {
	locker := redislock.New(redis.NewClient(&redis.Options{Addr: address}))
	lock, err := locker.Obtain(background, "a", 5*time.Second, nil)
	must("obtain", err)
	_, err = locker.Obtain(background, "a", time.Second, nil)
	check("somebody else", err, redislock.ErrNotObtained)
	must("refresh", lock.Refresh(background, 10*time.Second, nil))
	left, err := lock.TTL(background)
	must("ttl", err)
	check("it is longer", left > 6*time.Second, true)
	must("release", lock.Release(background))
	_, err = locker.Obtain(background, "a", time.Second, nil)
	must("the next one", err)
}

func scripts(address string) {
	client := redis.NewClient(&redis.Options{Addr: address})
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	sum, err := add.Run(background, client, []string{"n"}, 2).Int()
	must("run", err)
	check("its result", sum, 2)
	must("flush", client.ScriptFlush(background).Err())
	sum, err = add.Run(background, client, []string{"n"}, 3).Int()
	must("run after SCRIPT FLUSH", err)
	check("its result", sum, 5)
	text := "#!lua name=lib\nredis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}"
	must("a library", client.FunctionLoad(background, text).Err())
	found, err := client.FCallRO(background, "get", []string{"n"}).Text()
	must("a function", err)
	check("its result", found, "5")
}
