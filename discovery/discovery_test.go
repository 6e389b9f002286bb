package discovery

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ in, says string }{
		{"static", ""}, {"", ""},
		{"file:seeds.txt", ""},
		{"dns:cache.internal", ""}, {"dns:cache.internal:7002", ""},
		{"srv:_ringcache._tcp.cache.internal", ""},
		{"etcd:http://10.0.0.1:2379/ringcache/prod", ""},
		{"etcd:https://a:2379,b:2379/ringcache", ""},
		{"consul:http://127.0.0.1:8500/ringcache", ""},
		{"file:", "not one of"}, {"zookeeper:x", "not one of"}, {"dns", "not one of"},
		{"dns:a:b:c", "name with or without a port"}, {"dns:cache:70000", "name with or without a port"}, {"dns:a b", "name with or without"},
		{"srv:cache.internal", "no name of an SRV record"}, {"srv:_ringcache._tcp", "no name of an SRV"},
		{"etcd:10.0.0.1:2379/x", "does not begin with http"}, {"etcd:http://10.0.0.1:2379", "does not end with a name"},
		{"etcd:http://user:secret@h:2379/x", "credentials belong into the token"}, {"etcd:http://,b:1/x", "no valid host"},
		{"consul:http://a:1,b:2/x", "several hosts"},
	} {
		s, err := Parse(tc.in, Options{})
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%q: %v", tc.in, err)
		case tc.says == "" && (s == nil) != (tc.in == "" || tc.in == "static"):
			t.Errorf("%q: %v", tc.in, s)
		case tc.says != "" && (!errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v", tc.in, err)
		}
	}
	for _, o := range []Options{{TTL: 1}, {Cert: "x"}, {CA: "/no/such/file"}, {Token: "without-a-colon"}, {Cert: "/no", Key: "/no"}} {
		if _, err := Parse("etcd:http://h:1/x", o); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seeds")
	s, err := Parse("file:"+path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seeds(context.Background()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "one host:port a line") {
		t.Error(err)
	}
	for _, tc := range []struct {
		text string
		want []string
		says string
	}{
		{"10.0.0.2:7001\n10.0.0.1:7001 # the first\n# none here\n\n", []string{"10.0.0.1:7001", "10.0.0.2:7001"}, ""},
		{"a:1, b:2,a:1\tc:3\r\n", []string{"a:1", "b:2", "c:3"}, ""},
		{"good:1\nbad\n", []string{"good:1"}, ""},
		{"a:1\n", []string{"a:1"}, ""},
		{"", nil, ""},
		{"# nothing\n\nbad\n", nil, "line 3: \"bad\" is not host:port"},
		{"a:0\n", nil, "no valid port"},
		{":7001\n", nil, "no valid host"},
		{strings.Repeat("a:1\n", MaxBody/4+1), nil, "more than"},
	} {
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := s.Seeds(context.Background()) // the file as it is now
		if len(got)+len(tc.want) > 0 && !reflect.DeepEqual(got, tc.want) || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%.40q: %q, %v", tc.text, got, err)
		}
	}
}

// TestSlipsAreBounded: a wrong file does not become a log line as long as the file, and
// one that cannot be read to its end keeps nobody.
func TestSlipsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(path, []byte(strings.Repeat("x ", MaxBody/2)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustParse(t, "file:"+path, Options{})
	if _, err := s.Seeds(t.Context()); err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "and 524280 more") {
		t.Errorf("%.4000v", err)
	}
	if _, err := mustParse(t, "file:"+filepath.Dir(path), Options{}).Seeds(t.Context()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	if _, err := mustParse(t, "file:/dev/zero", Options{}).Seeds(t.Context()); err == nil {
		t.Error("a device was read")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var all []string
	for i := range 2 * MaxSeeds {
		all = append(all, "h:"+string(rune('a'+i%26))+strings.Repeat("x", i))
	}
	if got := bounded(all); len(got) != MaxSeeds {
		t.Error(len(got))
	}
}
