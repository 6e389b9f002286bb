package operate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// Write appends a value of this package, or a slice of such, as a reply. It costs
// reflection, which is nothing beside the question.
func Write(w *resp.Writer, v any) { write(w, reflect.ValueOf(v)) }

func write(w *resp.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		w.Map(v.NumField())
		for i := range v.NumField() {
			w.BulkString(key(v.Type().Field(i)))
			write(w, v.Field(i))
		}
	case reflect.Slice:
		w.Array(v.Len())
		for i := range v.Len() {
			write(w, v.Index(i))
		}
	case reflect.String:
		w.BulkString(v.String())
	case reflect.Bool:
		w.Bool(v.Bool())
	case reflect.Float64:
		w.Double(v.Float())
	default: // whole numbers; anything else is refused by TestEveryFieldHasAForm
		w.Int(v.Int())
	}
}

// key is the name of a field on the wire.
func key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Read turns a reply into a value of this package, or a slice of such. Keys that it
// does not know are left out, missing ones give zeros. Errors wrap errs.ErrProtocol;
// an error reply gives a resp.ReplyError.
func Read(v resp.Value, into any) error {
	if err := v.Err(); err != nil {
		return err
	}
	return read(v, reflect.ValueOf(into).Elem(), "reply")
}

func read(v resp.Value, into reflect.Value, where string) error {
	switch into.Kind() {
	case reflect.Struct:
		if v.Kind != resp.Map && v.Kind != resp.Array {
			return fmt.Errorf("%w: %s is a %s, not a map", errs.ErrProtocol, where, v.Kind)
		}
		for i := range into.NumField() {
			name := key(into.Type().Field(i))
			if field, ok := v.Find(name); ok {
				if err := read(field, into.Field(i), where+"."+name); err != nil {
					return err
				}
			}
		}
	case reflect.Slice:
		if v.Kind != resp.Array && v.Kind != resp.Set {
			return fmt.Errorf("%w: %s is a %s, not an array", errs.ErrProtocol, where, v.Kind)
		}
		list := reflect.MakeSlice(into.Type(), len(v.Elems), len(v.Elems))
		for i := range v.Elems {
			if err := read(v.Elems[i], list.Index(i), where+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
		into.Set(list)
	default:
		return readScalar(v, into, where)
	}
	return nil
}

// readScalar reads what has several forms in RESP2 and RESP3.
func readScalar(v resp.Value, into reflect.Value, where string) (err error) {
	text := v.Text()
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		into.SetBool(text == "true" || text == "1")
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		into.SetFloat(f)
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		into.SetInt(n)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is %.40q, not a number", errs.ErrProtocol, where, text)
	}
	return nil
}
