package resp

// aheadKey is the longest argument that Ahead gives: it is for keys, and scripts
// stand in the same place.
const aheadKey = 256

// Ahead looks at the commands at the start of buf, which nobody has parsed yet, and
// appends their second arguments, in most commands the first key, to dst until that
// is full. It returns how many bytes those commands take.
//
// What it gives is a hint, borrowed from buf: nothing is checked against limits,
// and it stops at whatever is not a complete array of bulk strings.
func Ahead(dst [][]byte, buf []byte) (_ [][]byte, n int) {
	for len(dst) < cap(dst) {
		b := buf[n:]
		args, at := shortHeader(b, '*')
		if at == 0 || args == 0 {
			break
		}
		for i := range args {
			length, size := shortHeader(b[at:], '$')
			end := at + size + length
			if size == 0 || end+2 > len(b) {
				return dst, n
			}
			if i == 1 && length <= aheadKey {
				dst = append(dst, b[at+size:end])
			}
			at = end + 2
		}
		n += at
	}
	return dst, n
}

// shortHeader reads mark, a number of up to six digits and the line end; size is 0
// if b does not begin like that.
func shortHeader(b []byte, mark byte) (v, size int) {
	if len(b) < 4 || b[0] != mark {
		return 0, 0
	}
	for i := 1; i < min(len(b)-1, 8); i++ {
		c := b[i] - '0'
		if c > 9 {
			if b[i] == '\r' && b[i+1] == '\n' && i > 1 {
				return v, i + 2
			}
			return 0, 0
		}
		v = v*10 + int(c)
	}
	return 0, 0
}
