package operate

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// values are all that replies are made of.
var values = []any{Status{}, Node{}, Figures{}, SlotRange{}, Pin{}, Event{}, Change{}, Plan{}, Move{}, PlanNode{}, Origin{}}

// TestEveryFieldHasAForm: each field has a name of its own and a type that the codec
// knows.
func TestEveryFieldHasAForm(t *testing.T) {
	for _, v := range values {
		typ, seen := reflect.TypeOf(v), map[string]bool{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := key(f)
			if name == "" || seen[name] || strings.ToLower(name) != name || strings.Contains(f.Tag.Get("json"), ",") {
				t.Errorf("%s.%s is called %q", typ.Name(), f.Name, name)
			}
			seen[name] = true
			kind := f.Type
			if kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			switch kind.Kind() {
			case reflect.String, reflect.Bool, reflect.Float64, reflect.Int, reflect.Int64, reflect.Struct:
			default:
				t.Errorf("%s.%s is a %s", typ.Name(), f.Name, kind)
			}
		}
	}
}

// fill sets every field to something of its own.
func fill(v reflect.Value, n *int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		*n++
		v.SetString(strings.Repeat("x", int(*n%7)) + "\r\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n) + 0.25)
	default:
		*n++
		v.SetInt(*n)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, proto := range []int{2, 3} {
		for _, v := range values {
			want := reflect.New(reflect.TypeOf(v))
			var n int64
			fill(want.Elem(), &n)
			w := resp.Writer{Proto: proto}
			Write(&w, want.Elem().Interface())
			var p resp.ReplyParser
			reply, size, err := p.Next(w.Buf, nil)
			if err != nil || size != len(w.Buf) {
				t.Fatalf("%T: %v", v, err)
			}
			got := reflect.New(reflect.TypeOf(v))
			if err := Read(reply, got.Interface()); err != nil || !reflect.DeepEqual(got.Elem().Interface(), want.Elem().Interface()) {
				t.Errorf("RESP%d, %v:\ngot  %+v\nwant %+v", proto, err, got.Elem(), want.Elem())
			}
		}
	}
}

func TestReadFaults(t *testing.T) {
	for _, tc := range []struct {
		reply string
		want  string
	}{
		{"-ERR no\r\n", "ERR no"},
		{":1\r\n", "reply is a integer, not a map"},
		{"%1\r\n$5\r\nslots\r\n$1\r\nx\r\n", `reply.slots is "x", not a number`},
		{"%1\r\n$7\r\nfigures\r\n:1\r\n", "reply.figures is a integer, not a map"},
	} {
		var p resp.ReplyParser
		v, _, err := p.Next([]byte(tc.reply), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n Node
		err = Read(v, &n)
		var said resp.ReplyError
		if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, errs.ErrProtocol) && !errors.As(err, &said) {
			t.Errorf("%q: %v, want %q", tc.reply, err, tc.want)
		}
	}
	var n Node
	if err := Read(resp.Value{Kind: resp.Map, Elems: []resp.Value{{Kind: resp.Bulk, Str: []byte("later")}, {Kind: resp.Null}}}, &n); err != nil || !reflect.DeepEqual(n, Node{}) {
		t.Errorf("an unknown key gives %v, %+v", err, n)
	}
}
