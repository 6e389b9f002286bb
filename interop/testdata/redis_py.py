"""Drives a cluster with redis-py: redis_py.py <host:port>"""
import sys

from redis.cluster import RedisCluster

host, port = sys.argv[1].split(":")
c = RedisCluster(host=host, port=int(port), decode_responses=True)
for i in range(500):
    assert c.set("py%d" % i, "v%d" % i)
for i in range(500):
    assert c.get("py%d" % i) == "v%d" % i
assert c.incrby("{py}n", 5) == 5
with c.pipeline() as p:  # over slots; not a transaction
    for i in range(100):
        p.get("py%d" % i)
    assert p.execute() == ["v%d" % i for i in range(100)]
assert c.mset_nonatomic({"x1": "1", "x2": "2"}) and c.mget_nonatomic("x1", "x2", "x3") == ["1", "2", None]
node = c.get_redis_connection(c.get_node_from_key("{py}n"))
with node.pipeline(transaction=True) as p:
    p.watch("{py}n")
    p.multi()
    p.incr("{py}n")
    p.get("{py}n")
    assert p.execute() == [6, "6"]
assert len(set(c.scan_iter(match="py*", count=100))) == 500
c.close()
print("fine")
