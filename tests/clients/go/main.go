// What programs do with go-redis, against a server that keeps what it acknowledged.
//
// go-smoke PORT PROTOCOL; says "kill" when the server is to be killed and started again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// is compares what a command answered with what was expected.
func is(expected any, answer any, err error) {
	must(err)
	if !reflect.DeepEqual(answer, expected) {
		panic(fmt.Sprintf("%#v is not %#v", answer, expected))
	}
}

// check looks at the result of a command, which each type of command has with a type of its own.
func check(expected any, command any) {
	found := reflect.ValueOf(command).MethodByName("Result").Call(nil)
	err, _ := found[1].Interface().(error)
	is(expected, found[0].Interface(), err)
}

func sorted(words []string) []string {
	sort.Strings(words)
	return words
}

// whenBlocked waits until a client of the server waits for a key.
func whenBlocked(db *redis.Client) {
	for strings.Contains(db.Info(ctx, "clients").Val(), "blocked_clients:0") {
		time.Sleep(time.Millisecond)
	}
}

func stringsPart(db *redis.Client) {
	check("OK", db.Set(ctx, "text", "hello", 100*time.Second))
	check("hello", db.Get(ctx, "text"))
	if left := db.TTL(ctx, "text").Val(); left <= 0 || left > 100*time.Second {
		panic(left)
	}
	check(false, db.SetNX(ctx, "text", "other", 0))
	check(int64(5), db.IncrBy(ctx, "number", 5))
	check(5.5, db.IncrByFloat(ctx, "number", 0.5))
	check("OK", db.MSet(ctx, "a", 1, "b", 2))
	check([]any{"1", nil, "2"}, db.MGet(ctx, "a", "none", "b"))
	every := make([]byte, 70000)
	for at := range every {
		every[at] = byte(at)
	}
	check("OK", db.Set(ctx, "\x00\r\n", every, 0))
	check(string(every), db.Get(ctx, "\x00\r\n"))
	if err := db.Get(ctx, "none").Err(); err != redis.Nil {
		panic(err)
	}
}

func collections(db *redis.Client) {
	check(int64(2), db.HSet(ctx, "hash", "f", "v", "g", 2))
	check(map[string]string{"f": "v", "g": "2"}, db.HGetAll(ctx, "hash"))
	check(int64(42), db.HIncrBy(ctx, "hash", "g", 40))
	check(int64(3), db.RPush(ctx, "list", "a", "b", "c"))
	check([]string{"a", "b", "c"}, db.LRange(ctx, "list", 0, -1))
	check([]string{"list", "a"}, db.BLPop(ctx, 5*time.Second, "none", "list"))
	got := make(chan []string)
	go func() { got <- db.BRPop(ctx, 20*time.Second, "queue").Val() }()
	whenBlocked(db)
	check(int64(1), db.LPush(ctx, "queue", "job"))
	is([]string{"queue", "job"}, <-got, nil)
	check(int64(3), db.SAdd(ctx, "set", "a", "b", "c"))
	is([]string{"a", "b", "c"}, sorted(db.SMembers(ctx, "set").Val()), nil)
	db.SAdd(ctx, "set2", "b", "c", "d")
	is([]string{"b", "c"}, sorted(db.SInter(ctx, "set", "set2").Val()), nil)
	check(int64(2), db.ZAdd(ctx, "scores", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"}))
	check([]redis.Z{{Score: 1, Member: "one"}, {Score: 2.5, Member: "two"}}, db.ZRangeWithScores(ctx, "scores", 0, -1))
	check(2.5, db.ZScore(ctx, "scores", "two"))
	check(3.0, db.ZIncrBy(ctx, "scores", 2, "one"))
	check([]redis.Z{{Score: 2.5, Member: "two"}}, db.ZPopMin(ctx, "scores", 1))
}

func streams(db *redis.Client) {
	one := db.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"f", "1"}}).Val()
	two := db.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"f", "2"}}).Val()
	check("OK", db.XGroupCreate(ctx, "stream", "readers", "0"))
	read := db.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "readers", Consumer: "me", Streams: []string{"stream", ">"}})
	entries := []redis.XMessage{
		{ID: one, Values: map[string]any{"f": "1"}},
		{ID: two, Values: map[string]any{"f": "2"}},
	}
	check([]redis.XStream{{Stream: "stream", Messages: entries}}, read)
	is(int64(2), db.XPending(ctx, "stream", "readers").Val().Count, nil)
	check(int64(1), db.XAck(ctx, "stream", "readers", one))
	claim := redis.XClaimArgs{Stream: "stream", Group: "readers", Consumer: "you", Messages: []string{two}}
	check(entries[1:], db.XClaim(ctx, &claim))
	is(int64(1), db.XInfoGroups(ctx, "stream").Val()[0].Pending, nil)
	is(int64(2), db.XInfoStream(ctx, "stream").Val().Length, nil)
	is(int64(2), db.XInfoStreamFull(ctx, "stream", 0).Val().Length, nil)
	got := make(chan []redis.XStream)
	go func() {
		got <- db.XRead(ctx, &redis.XReadArgs{Streams: []string{"stream", "$"}, Block: 20 * time.Second}).Val()
	}()
	whenBlocked(db)
	three := db.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"f", "3"}}).Val()
	is(three, (<-got)[0].Messages[0].ID, nil)
}

func channels(db *redis.Client) {
	listener := db.Subscribe(ctx, "news")
	must(listener.PSubscribe(ctx, "n*"))
	for range []int{1, 2} {
		_, err := listener.Receive(ctx)
		must(err)
	}
	check(int64(2), db.Publish(ctx, "news", "hello"))
	for range []int{1, 2} {
		message, err := listener.ReceiveMessage(ctx)
		must(err)
		is("hello", message.Payload, nil)
	}
	must(listener.Close())
}

func transactions(db *redis.Client) {
	moved := func(meanwhile func()) error {
		return db.Watch(ctx, func(tx *redis.Tx) error {
			found, _ := tx.Get(ctx, "balance").Int()
			meanwhile()
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "balance", found+1, 0)
				return nil
			})
			return err
		}, "balance")
	}
	must(moved(func() {}))
	check("1", db.Get(ctx, "balance"))
	err := moved(func() { db.Set(ctx, "balance", 7, 0) })
	if !errors.Is(err, redis.TxFailedErr) {
		panic(err)
	}
	check("7", db.Get(ctx, "balance"))
	// Pipelined, many at once.
	commands, err := db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := 0; number < 2000; number++ {
			pipe.Set(ctx, fmt.Sprintf("many:%d", number), number, 0)
		}
		return nil
	})
	must(err)
	is(2000, len(commands), nil)
}

func scripts(db *redis.Client) {
	script := redis.NewScript("redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('GET', KEYS[1]), 7, false}")
	// EVALSHA, and EVAL where it is not known yet.
	check([]any{"x", int64(7), nil}, script.Run(ctx, db, []string{"scripted"}, "x"))
	check([]bool{true}, script.Exists(ctx, db))
	check([]any{"y", int64(7), nil}, script.EvalSha(ctx, db, []string{"scripted"}, "y"))
}

func iterators(db *redis.Client) {
	count := func(iterator *redis.ScanIterator) int {
		seen := map[string]bool{}
		for iterator.Next(ctx) {
			seen[iterator.Val()] = true
		}
		must(iterator.Err())
		return len(seen)
	}
	is(2000, count(db.Scan(ctx, 0, "many:*", 100).Iterator()), nil)
	for number := 0; number < 1000; number++ {
		db.SAdd(ctx, "members", number)
	}
	is(1000, count(db.SScan(ctx, "members", 0, "", 0).Iterator()), nil)
}

func reconnection(db *redis.Client) {
	acknowledged, said := 0, false
	for {
		if db.Set(ctx, "counter", acknowledged+1, 0).Err() != nil {
			break
		}
		acknowledged++
		if acknowledged > 200 && !said {
			fmt.Println("kill")
			said = true
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	found, err := db.Get(ctx, "counter").Int()
	for err != nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		found, err = db.Get(ctx, "counter").Int()
	}
	must(err)
	if found < acknowledged || found > acknowledged+1 {
		panic(fmt.Sprintf("%d of %d", found, acknowledged))
	}
	check("hello", db.Get(ctx, "text"))
}

func main() {
	protocol, err := strconv.Atoi(os.Args[2])
	must(err)
	db := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, MaxRetries: -1})
	check("PONG", db.Ping(ctx))
	for _, part := range []func(*redis.Client){stringsPart, collections, streams, channels, transactions, scripts, iterators} {
		part(db)
	}
	reconnection(db)
	must(db.Close())
}
