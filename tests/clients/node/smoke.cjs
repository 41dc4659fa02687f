// smoke.cjs PORT PROTOCOL: what programs do with node-redis, against a server that keeps what it acknowledged.
// Says "kill" when the server is to be killed and started again.
"use strict";
const assert = require("node:assert");
const { setTimeout: sleep } = require("node:timers/promises");
const { createClient, RESP_TYPES, WatchError } = require("@redis/client");

const [port, RESP] = process.argv.slice(2).map(Number);
const equal = assert.deepStrictEqual;
const plain = (map) => Object.assign({}, map);

async function connect(socket = {}, more = {}) {
  // In RESP3 the library hands replies to XREAD on as they came.
  const client = createClient({ RESP, unstableResp3: true, socket: { host: "127.0.0.1", port, ...socket }, ...more });
  // What fails is told to who asked as well.
  client.on("error", () => {});
  return client.connect();
}

/** Waits until a client of the server waits for a key. */
async function whenBlocked(db) {
  while ((await db.info("clients")).includes("blocked_clients:0")) await sleep(1);
}

/** The entries of one stream in a reply to XREAD, with their numbers. */
function entries(read) {
  if (RESP === 3) return read.stream.map(([id, [field, value]]) => [id, { [field]: value }]);
  return read[0].messages.map(({ id, message }) => [id, plain(message)]);
}

async function strings(db) {
  equal(await db.set("text", "hello", { EX: 100 }), "OK");
  equal(await db.get("text"), "hello");
  equal(await db.set("text", "other", { NX: true }), null);
  equal(await db.incrBy("number", 5), 5);
  equal(Number(await db.incrByFloat("number", 0.5)), 5.5);
  equal(await db.mSet({ a: "1", b: "2" }), "OK");
  equal(await db.mGet(["a", "none", "b"]), ["1", null, "2"]);
  const every = Buffer.from(Array.from({ length: 70000 }, (_, at) => at % 256));
  await db.set(Buffer.from("\0\r\n"), every);
  const buffers = db.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  equal(await buffers.get("\0\r\n"), every);
}

async function collections(db) {
  equal(await db.hSet("hash", { f: "v", g: "2" }), 2);
  equal(plain(await db.hGetAll("hash")), { f: "v", g: "2" });
  equal(await db.hIncrBy("hash", "g", 40), 42);
  equal(await db.rPush("list", ["a", "b", "c"]), 3);
  equal(await db.lRange("list", 0, -1), ["a", "b", "c"]);
  equal(plain(await db.blPop(["none", "list"], 5)), { key: "list", element: "a" });
  const other = await connect();
  const waiting = other.brPop("queue", 20);
  await whenBlocked(db);
  equal(await db.lPush("queue", "job"), 1);
  equal(plain(await waiting), { key: "queue", element: "job" });
  equal(await db.sAdd("set", ["a", "b", "c"]), 3);
  equal([...(await db.sMembers("set"))].sort(), ["a", "b", "c"]);
  await db.sAdd("set2", ["b", "c", "d"]);
  equal([...(await db.sInter(["set", "set2"]))].sort(), ["b", "c"]);
  const scores = [{ score: 1, value: "one" }, { score: 2.5, value: "two" }];
  equal(await db.zAdd("scores", scores), 2);
  equal((await db.zRangeWithScores("scores", 0, -1)).map(plain), scores);
  equal(await db.zScore("scores", "two"), 2.5);
  equal(await db.zIncrBy("scores", 2, "one"), 3);
  equal(plain(await db.zPopMin("scores")), { value: "two", score: 2.5 });

  const one = await db.xAdd("stream", "*", { f: "1" });
  const two = await db.xAdd("stream", "*", { f: "2" });
  equal(await db.xGroupCreate("stream", "readers", "0"), "OK");
  const read = await db.xReadGroup("readers", "me", { key: "stream", id: ">" });
  equal(entries(read), [[one, { f: "1" }], [two, { f: "2" }]]);
  equal((await db.xPending("stream", "readers")).pending, 2);
  equal(await db.xAck("stream", "readers", one), 1);
  equal((await db.xClaim("stream", "readers", "you", 0, two))[0].id, two);
  equal((await db.xInfoGroups("stream"))[0].pending, 1);
  equal((await db.xInfoStream("stream")).length, 2);
  const reading = other.xRead({ key: "stream", id: "$" }, { BLOCK: 20000 });
  await whenBlocked(db);
  const three = await db.xAdd("stream", "*", { f: "3" });
  equal(entries(await reading), [[three, { f: "3" }]]);
  other.destroy();
}

async function channels(db) {
  const listener = await connect();
  const got = [];
  await listener.subscribe("news", (message) => got.push(message));
  await listener.pSubscribe("n*", (message) => got.push(message));
  equal(await db.publish("news", "hello"), 2);
  for (let waits = 0; got.length < 2 && waits < 2000; waits++) await sleep(10);
  equal(got, ["hello", "hello"]);
  listener.destroy();
}

async function transactions(db) {
  equal(await db.multi().set("balance", 1).incr("balance").exec(), ["OK", 2]);
  const alone = await connect();
  await alone.watch("balance");
  await db.set("balance", 7);
  await assert.rejects(alone.multi().set("balance", 8).exec(), WatchError);
  equal(await db.get("balance"), "7");
  alone.destroy();
  // Those that are asked at once go out together.
  const numbers = Array.from({ length: 2000 }, (_, number) => number);
  await Promise.all(numbers.map((number) => db.set(`many:${number}`, number)));
  equal(await Promise.all(numbers.map((number) => db.get(`many:${number}`))), numbers.map(String));
}

async function scripts(db) {
  const script = "redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('GET', KEYS[1]), 7, false}";
  const sha = await db.scriptLoad(script);
  equal(await db.evalSha(sha, { keys: ["scripted"], arguments: ["x"] }), ["x", 7, null]);
  await assert.rejects(db.evalSha("0".repeat(40)), /NOSCRIPT/);
}

/** The library's own cache (redis-py has one too, and takes no server that says 7.0 for one that can). */
async function copies(db) {
  if (RESP !== 3) return;
  const clientSideCache = { ttl: 0, maxEntries: 0, evictPolicy: "LRU" };
  const cached = await connect({}, { clientSideCache });
  const calls = async () => Number(/cmdstat_get:calls=(\d+)/.exec(await db.info("commandstats"))[1]);
  await db.set("copied", "old");
  equal(await cached.get("copied"), "old");
  const before = await calls();
  equal(await cached.get("copied"), "old");
  equal(await calls(), before, "the second one came from the cache");
  await db.set("copied", "new");
  for (let waits = 0; (await cached.get("copied")) !== "new"; waits++) {
    assert(waits < 2000, "the client was not told");
    await sleep(10);
  }
  cached.destroy();
}

async function iterators(db) {
  const seen = new Set();
  for await (const keys of db.scanIterator({ MATCH: "many:*", COUNT: 100 })) keys.forEach((key) => seen.add(key));
  equal(seen.size, 2000);
  await db.sAdd("members", Array.from({ length: 1000 }, (_, number) => `${number}`));
  const members = new Set();
  for await (const found of db.sScanIterator("members")) found.forEach((member) => members.add(member));
  equal(members.size, 1000);
}

async function reconnection() {
  const db = await connect({ reconnectStrategy: 20 });
  const strict = await connect({ reconnectStrategy: false });
  let acknowledged = 0;
  try {
    for (;;) {
      await strict.set("counter", acknowledged + 1);
      acknowledged++;
      if (acknowledged === 200) console.log("kill");
    }
  } catch (error) {
    assert(acknowledged >= 200, error);
  }
  // It connects again by itself; while the log is read it is told LOADING.
  const text = async (key) => {
    for (;;) {
      try {
        return await db.get(key);
      } catch (error) {
        if (!/LOADING|[Ss]ocket|ECONN/.test(`${error}`)) throw error;
        await sleep(10);
      }
    }
  };
  const found = Number(await text("counter"));
  assert(acknowledged <= found && found <= acknowledged + 1, `${found} of ${acknowledged}`);
  equal(await text("text"), "hello");
  db.destroy();
}

async function main() {
  const db = await connect();
  equal(await db.ping(), "PONG");
  for (const part of [strings, collections, channels, transactions, scripts, copies, iterators]) await part(db);
  db.destroy();
  await reconnection();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
