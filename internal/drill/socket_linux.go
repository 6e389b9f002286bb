package drill

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// holdsSocket tells whether a process has the socket with an inode open.
func holdsSocket(pid int, inode string) bool {
	want := "socket:[" + inode + "]"
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if link, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && link == want {
			return true
		}
	}
	return false
}

// socketInode finds the inode of the TCP socket whose own address is local and whose
// other end is remote in the kernel's table of IPv4 sockets; "" if there is none.
func socketInode(local, remote net.Addr) string {
	l, r := procAddr(local), procAddr(remote)
	f, err := os.Open("/proc/net/tcp")
	if err != nil || l == "" || r == "" {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[1] == l && fields[2] == r {
			return fields[9]
		}
	}
	return ""
}

// procAddr writes an address as /proc/net/tcp does: the address as a number in the
// machine's byte order, the port in hexadecimal.
func procAddr(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port)
}
