package client

import "strconv"

// request is an encoded command, built argument by argument. It exists beside
// the general encoder because commands mix strings, bytes and numbers, and none
// of them should be copied just to be encoded.
type request []byte

func (q request) begin(args int) request { return q.header('*', args) }

func (q request) header(kind byte, n int) request {
	q = append(q, kind)
	q = strconv.AppendInt(q, int64(n), 10)
	return append(q, '\r', '\n')
}

func (q request) str(s string) request {
	q = q.header('$', len(s))
	q = append(q, s...)
	return append(q, '\r', '\n')
}

func (q request) bytes(b []byte) request {
	q = q.header('$', len(b))
	q = append(q, b...)
	return append(q, '\r', '\n')
}

func (q request) int(n int64) request {
	var digits [20]byte
	return q.bytes(strconv.AppendInt(digits[:0], n, 10))
}
