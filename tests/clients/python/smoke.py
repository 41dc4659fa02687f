"""smoke.py PORT PROTOCOL [CERTIFICATES]: what programs do with redis-py, against a server that keeps what it acknowledged.
With TLS where a directory of certificates is named.

Says "kill" when the server is to be killed and started again.
"""

import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

PORT, PROTOCOL = int(sys.argv[1]), int(sys.argv[2])
SETTINGS = {"port": PORT, "protocol": PROTOCOL, "socket_timeout": 30}
for directory in sys.argv[3:]:
    SETTINGS |= {"ssl": True, "ssl_ca_certs": f"{directory}/ca.pem"}
    SETTINGS |= {"ssl_certfile": f"{directory}/machine.pem"}
    SETTINGS |= {"ssl_keyfile": f"{directory}/machine.key"}


def connect(**more):
    return redis.Redis(**({"decode_responses": True} | SETTINGS | more))


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def strings(r):
    assert r.set("text", "hello", ex=100)
    equal(r.get("text"), "hello")
    assert 0 < r.ttl("text") <= 100
    assert r.set("text", "other", nx=True) is None
    equal(r.incrby("number", 5), 5)
    equal(r.incrbyfloat("number", 0.5), 5.5)
    equal(r.mset({"a": 1, "b": 2}), True)
    equal(r.mget("a", "none", "b"), ["1", None, "2"])
    equal(r.setrange("text", 5, " you"), 9)
    equal(r.getrange("text", 6, -1), "you")
    raw = connect(decode_responses=False)
    every_byte = bytes(range(256)) * 300
    raw.set(b"\x00\r\n", every_byte)
    equal(raw.get(b"\x00\r\n"), every_byte)
    raw.close()


def hashes(r):
    equal(r.hset("hash", mapping={"f": "v", "g": 2}), 2)
    equal(r.hgetall("hash"), {"f": "v", "g": "2"})
    equal(r.hincrby("hash", "g", 40), 42)
    equal(sorted(r.hkeys("hash")), ["f", "g"])
    equal(r.hmget("hash", "f", "none"), ["v", None])


def lists(r):
    equal(r.rpush("list", "a", "b", "c"), 3)
    equal(r.lrange("list", 0, -1), ["a", "b", "c"])
    equal(r.lmove("list", "other", "LEFT", "RIGHT"), "a")
    equal(r.blpop(["none", "list"], timeout=5), pair("list", "b"))
    equal(r.blpop("none", timeout=0.05), None)
    got = []
    waiter = threading.Thread(target=lambda: got.append(connect().brpop("queue", timeout=20)))
    waiter.start()
    while r.info("clients")["blocked_clients"] == 0:
        time.sleep(0.001)
    r.lpush("queue", "job")
    waiter.join()
    equal(got, [pair("queue", "job")])


def pair(key, value):
    return [key, value] if PROTOCOL == 3 else (key, value)


def sets(r):
    equal(r.sadd("set", "a", "b", "c"), 3)
    equal(r.smembers("set"), {"a", "b", "c"})
    equal(r.sismember("set", "b"), True)
    r.sadd("set2", "b", "c", "d")
    equal(set(r.sinter("set", "set2")), {"b", "c"})
    equal(r.sdiffstore("set3", "set", "set2"), 1)


def sorted_sets(r):
    equal(r.zadd("scores", {"one": 1, "two": 2.5, "three": float("inf")}), 3)
    ranged = [tuple(found) for found in r.zrange("scores", 0, -1, withscores=True)]
    equal(ranged, [("one", 1.0), ("two", 2.5), ("three", float("inf"))])
    equal(r.zscore("scores", "two"), 2.5)
    equal(r.zrank("scores", "two"), 1)
    equal(r.zincrby("scores", 2, "one"), 3.0)
    equal(r.zrangebyscore("scores", "(2.5", "+inf"), ["one", "three"])
    equal(len(r.zpopmin("scores", 2)), 2)


def streams(r):
    one = r.xadd("stream", {"f": "1"})
    two = r.xadd("stream", {"f": "2"})
    assert r.xgroup_create("stream", "readers", id="0")
    entries = read_entries(r.xreadgroup("readers", "me", {"stream": ">"}, count=10))
    equal(entries, [(one, {"f": "1"}), (two, {"f": "2"})])
    equal(r.xpending("stream", "readers")["pending"], 2)
    equal(r.xack("stream", "readers", one), 1)
    equal([entry[0] for entry in r.xclaim("stream", "readers", "you", 0, [two])], [two])
    equal(r.xautoclaim("stream", "readers", "me", 0)[1][0][0], two)
    equal(r.xinfo_groups("stream")[0]["pending"], 1)
    equal(r.xinfo_stream("stream")["length"], 2)
    got = []
    waiter = threading.Thread(
        target=lambda: got.append(connect().xread({"stream": "$"}, block=20000))
    )
    waiter.start()
    while r.info("clients")["blocked_clients"] == 0:
        time.sleep(0.001)
    three = r.xadd("stream", {"f": "3"})
    waiter.join()
    equal(read_entries(got[0]), [(three, {"f": "3"})])


def read_entries(answer):
    found = answer["stream"] if isinstance(answer, dict) else answer[0][1]
    if found and isinstance(found[0], list) and found[0] and isinstance(found[0][0], (list, tuple)):
        found = found[0]
    return [(entry[0], entry[1]) for entry in found]


def channels(r):
    listener = r.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*")
    for expected in ["subscribe", "psubscribe"]:
        equal(listener.get_message(timeout=20)["type"], expected)
    equal(r.publish("news", "hello"), 2)
    got = [listener.get_message(timeout=20) for _ in range(2)]
    equal([message["type"] for message in got], ["message", "pmessage"])
    equal({message["data"] for message in got}, {"hello"})
    listener.close()


def transactions(r):
    with r.pipeline() as pipe:
        pipe.watch("balance")
        pipe.multi()
        pipe.set("balance", 1).incr("balance").hget("text", "f")
        try:
            pipe.execute()
            raise AssertionError("a wrong type is an error")
        except redis.ResponseError as error:
            assert "WRONGTYPE" in str(error), error
    equal(r.get("balance"), "2")
    with r.pipeline() as pipe:
        pipe.watch("balance")
        r.set("balance", 7)
        pipe.multi()
        pipe.set("balance", 8)
        try:
            pipe.execute()
            raise AssertionError("the key was changed")
        except redis.WatchError:
            pass
    equal(r.get("balance"), "7")


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.set(f"many:{number}", number)
        for number in range(2000):
            pipe.get(f"many:{number}")
        equal(pipe.execute()[2000:], [str(number) for number in range(2000)])


def scripts(r):
    script = r.register_script(
        "redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('GET', KEYS[1]), 7, false}"
    )
    equal(script(keys=["scripted"], args=["x"]), ["x", 7, None])
    equal(r.script_exists(script.sha), [True])
    equal(r.evalsha(script.sha, 1, "scripted", "y"), ["y", 7, None])
    try:
        r.evalsha("0" * 40, 0)
        raise AssertionError("there is no such script")
    except redis.exceptions.NoScriptError:
        pass


def iterators(r):
    expected = {f"many:{number}" for number in range(2000)}
    equal(set(r.scan_iter(match="many:*", count=100)), expected)
    r.hset("fields", mapping={f"f{number}": number for number in range(1000)})
    equal(len(dict(r.hscan_iter("fields"))), 1000)
    r.sadd("members", *range(1000))
    equal(len(set(r.sscan_iter("members"))), 1000)
    r.zadd("ranks", {f"m{number}": number for number in range(1000)})
    equal(len({found[0] for found in r.zscan_iter("ranks")}), 1000)


def reconnection(r):
    acknowledged, said = 0, False
    while True:
        try:
            assert r.set("counter", acknowledged + 1)
            acknowledged += 1
        except redis.ConnectionError:
            break
        if acknowledged > 200 and not said:
            print("kill", flush=True)
            said = True
    again = connect(
        retry=Retry(ConstantBackoff(0.02), 1000),
        retry_on_error=[redis.exceptions.BusyLoadingError],
    )
    found = int(again.get("counter"))
    assert acknowledged <= found <= acknowledged + 1, (acknowledged, found)
    equal(again.get("many:1999"), "1999")
    # The pool of the first client has a connection to the server that is gone.
    equal(r.get("text"), "hello you")


def main():
    r = connect(retry=Retry(ConstantBackoff(0.01), 0))
    equal(r.ping(), True)
    equal(r.info("server")["redis_version"].split(".")[0], "7")
    parts = [strings, hashes, lists, sets, sorted_sets, streams, channels, transactions]
    for part in parts + [pipelines, scripts, iterators]:
        part(r)
    reconnection(r)


main()
