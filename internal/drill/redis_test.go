package drill

import (
	"os/exec"
	"testing"
	"time"
)

// The same script runs on a Redis Cluster.
func TestRedisCluster(t *testing.T) {
	if _, err := exec.LookPath(redisServer); err != nil {
		t.Skip("redis-server is not installed")
	}
	o := short(t, "pause")
	o.Target, o.Faults, o.Args = TargetRedis, 1, nil
	o.Duration = 2 * time.Second
	drilled(t, o)
}
