// Drives a cluster with ioredis: node ioredis.js <path of ioredis> <host:port> ...
const assert = require('assert');
const Redis = require(process.argv[2]);
const nodes = process.argv.slice(3).map((a) => ({ host: a.split(':')[0], port: Number(a.split(':')[1]) }));

async function main() {
  const c = new Redis.Cluster(nodes);
  for (let i = 0; i < 500; i++) assert.strictEqual(await c.set('js' + i, 'v' + i), 'OK');
  for (let i = 0; i < 500; i++) assert.strictEqual(await c.get('js' + i), 'v' + i);
  assert.strictEqual(await c.incrby('{js}n', 5), 5);
  const piped = await c.pipeline().set('{js}a', 1).append('{js}a', 2).get('{js}a').mget('{js}a', '{js}none').exec();
  assert.deepStrictEqual(piped, [[null, 'OK'], [null, 2], [null, '12'], [null, ['12', null]]]);
  const done = await c.multi().incr('{js}n').get('{js}n').exec();
  assert.deepStrictEqual(done, [[null, 6], [null, '6']]);
  const found = new Set();
  for (const node of c.nodes('master')) {
    for await (const keys of node.scanStream({ match: 'js*', count: 100 })) keys.forEach((k) => found.add(k));
  }
  assert.strictEqual(found.size, 500);
  await c.quit();
  console.log('fine');
}

main().catch((e) => { console.error(e); process.exit(1); });
