package config

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is what this process may use at most, and who says so.
type Memory struct {
	Bytes int64
	Of    string // "machine", "cgroup v1" or "cgroup v2"
}

// MachineMemory returns the memory of the machine, or of the process's cgroup
// (v1 or v2, the tightest of its ancestors) where that is less. It reads
// /proc and /sys, so it knows Linux only; elsewhere it is an error.
func MachineMemory() (Memory, error) { return memoryFrom(os.DirFS("/")) }

// memoryFrom is MachineMemory over any root, for tests.
func memoryFrom(root fs.FS) (Memory, error) {
	info, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return Memory{}, errors.New("this system does not tell how much memory it has")
	}
	m := Memory{Of: "machine"}
	for sc := bufio.NewScanner(bytes.NewReader(info)); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return Memory{}, errors.New("/proc/meminfo has an unreadable MemTotal")
			}
			m.Bytes = kb << 10
		}
	}
	if m.Bytes <= 0 {
		return Memory{}, errors.New("/proc/meminfo has no MemTotal")
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return m, nil // a kernel without cgroups
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID:controllers:path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			m.tighten(root, "sys/fs/cgroup", parts[2], "memory.max", "cgroup v2")
		case strings.Contains(","+parts[1]+",", ",memory,"):
			m.tighten(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", "cgroup v1")
		}
	}
	return m, nil
}

// tighten lowers the limit to the least one from the group up to the mount
// point. In a container the group's path often does not exist below the
// mount, which then shows the container's own group.
func (m *Memory) tighten(root fs.FS, mount, group, file, of string) {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(mount, dir, file))
		if err == nil {
			// "max" and v1's huge number both mean no limit.
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < m.Bytes {
				m.Bytes, m.Of = n, of
			}
		}
		if dir == "/" {
			return
		}
	}
}
