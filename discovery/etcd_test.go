package discovery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeEtcd is the part of etcd's gateway that the documentation describes: base64
// for bytes, strings for 64-bit numbers, zero values left out, leases with a TTL.
type fakeEtcd struct {
	t *testing.T

	mu       sync.Mutex
	keys     map[string]fakeKey
	leases   map[string]fakeLease
	last     int64
	password string // of the user "ring"; "": no authentication
	tokens   map[string]bool
	asked    []string
}

type fakeKey struct{ value, lease string }

type fakeLease struct {
	ttl time.Duration
	end time.Time
}

func newFakeEtcd(t *testing.T) *fakeEtcd {
	return &fakeEtcd{t: t, keys: map[string]fakeKey{}, leases: map[string]fakeLease{}, tokens: map[string]bool{}}
}

func (f *fakeEtcd) fail(w http.ResponseWriter, status, code int, text string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q,"code":%d,"message":%q}`, text, code, text)
}

func (f *fakeEtcd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.URL.Path)
	if r.Method != http.MethodPost || r.URL.RawQuery != "" {
		f.t.Errorf("%s %s", r.Method, r.URL)
	}
	if r.URL.Path == "/v3/auth/authenticate" {
		f.authenticate(w, r)
		return
	}
	if f.password != "" && !f.tokens[r.Header.Get("Authorization")] {
		f.fail(w, http.StatusUnauthorized, 16, "etcdserver: invalid auth token")
		return
	}
	for id, l := range f.leases {
		if !time.Now().Before(l.end) {
			f.revoke(id)
		}
	}
	switch r.URL.Path {
	case "/v3/kv/range":
		f.rangeKeys(w, r)
	case "/v3/kv/put":
		f.put(w, r)
	case "/v3/lease/grant":
		var in struct{ TTL string }
		if !strict(f.t, w, r, &in) {
			return
		}
		n, err := strconv.Atoi(in.TTL)
		if err != nil || n <= 0 {
			f.t.Errorf("TTL %q", in.TTL)
		}
		f.last++
		id := strconv.FormatInt(7587880000000+f.last, 10)
		f.leases[id] = fakeLease{time.Duration(n) * time.Second, time.Now().Add(time.Duration(n) * time.Second)}
		fmt.Fprintf(w, `{"header":{"revision":"3"},"ID":%q,"TTL":%q}`, id, in.TTL)
	case "/v3/lease/keepalive":
		f.keepAlive(w, r)
	case "/v3/lease/revoke":
		var in struct{ ID string }
		if strict(f.t, w, r, &in) {
			f.revoke(in.ID)
			fmt.Fprint(w, `{"header":{"revision":"4"}}`)
		}
	default:
		f.t.Errorf("no such path: %s", r.URL.Path)
		f.fail(w, http.StatusNotFound, 5, "Not Found")
	}
}

func (f *fakeEtcd) authenticate(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Password string }
	if !strict(f.t, w, r, &in) {
		return
	}
	if in.Name != "ring" || in.Password != f.password {
		f.fail(w, http.StatusBadRequest, 3, "etcdserver: authentication failed, invalid user ID or password")
		return
	}
	f.last++
	token := fmt.Sprintf("token.%d", f.last)
	f.tokens[token] = true
	fmt.Fprintf(w, `{"header":{},"token":%q}`, token)
}

func (f *fakeEtcd) revoke(id string) {
	delete(f.leases, id)
	for k, v := range f.keys {
		if v.lease == id {
			delete(f.keys, k)
		}
	}
}

func (f *fakeEtcd) rangeKeys(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Key      []byte `json:"key"`
		RangeEnd []byte `json:"range_end"`
		Limit    string `json:"limit"`
		Serial   bool   `json:"serializable"`
	}
	if !strict(f.t, w, r, &in) {
		return
	}
	if in.Limit != "256" || !in.Serial {
		f.t.Errorf("%+v", in)
	}
	var kvs []map[string]string
	for k, v := range f.keys {
		if k >= string(in.Key) && k < string(in.RangeEnd) {
			kvs = append(kvs, map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(k)),
				"value": base64.StdEncoding.EncodeToString([]byte(v.value)), "lease": v.lease, "version": "1"})
		}
	}
	out := map[string]any{"header": map[string]string{"revision": "5"}}
	if len(kvs) > 0 { // zero values are left out
		out["kvs"], out["count"] = kvs, strconv.Itoa(len(kvs))
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeEtcd) put(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
		Lease string `json:"lease"`
	}
	if !strict(f.t, w, r, &in) {
		return
	}
	if _, ok := f.leases[in.Lease]; !ok {
		f.fail(w, http.StatusNotFound, 5, "etcdserver: requested lease not found")
		return
	}
	f.keys[string(in.Key)] = fakeKey{string(in.Value), in.Lease}
	fmt.Fprint(w, `{"header":{"revision":"6"}}`)
}

func (f *fakeEtcd) keepAlive(w http.ResponseWriter, r *http.Request) {
	var in struct{ ID string }
	if !strict(f.t, w, r, &in) {
		return
	}
	l, ok := f.leases[in.ID]
	if !ok {
		fmt.Fprintf(w, `{"result":{"header":{"revision":"7"},"ID":%q}}`+"\n", in.ID)
		return
	}
	l.end = time.Now().Add(l.ttl)
	f.leases[in.ID] = l
	fmt.Fprintf(w, `{"result":{"header":{"revision":"7"},"ID":%q,"TTL":"%d"}}`+"\n", in.ID, l.ttl/time.Second)
}

// register runs Register as a node does and returns how to end it.
func register(t *testing.T, s Source, addr string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.(Registrar).Register(ctx, addr) }() // ends with ctx
	return func() error { cancel(); return <-done }
}

func TestEtcdListsAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEtcd(t)
		f.password = "s3cret:with:colons"
		f.keys["ringcache/prod0"] = fakeKey{"other:1", ""} // beside the prefix
		f.keys["ringcache/pro"] = fakeKey{"other:2", ""}
		p := &inProcess{handler: f}
		o := Options{Token: "ring:s3cret:with:colons", Transport: p}
		s := mustParse(t, "etcd:http://a:2379,b:2379/ringcache/prod", o)
		if got, err := s.Seeds(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		end1, end2 := register(t, s, "10.0.0.1:7001"), register(t, s, "[fd00::1]:7001")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		want := []string{"10.0.0.1:7001", "[fd00::1]:7001"}
		if got, err := s.Seeds(t.Context()); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("kept alive for ten minutes: %q, %v", got, err)
		}
		// One endpoint is down, then all tokens expire: the others do not notice.
		p.setDown("a:2379", true)
		f.mu.Lock()
		clear(f.tokens)
		f.mu.Unlock()
		<-time.After(time.Minute)
		synctest.Wait()
		if got, err := s.Seeds(t.Context()); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("after the failure of an endpoint: %q, %v", got, err)
		}
		if err := end1(); err != nil {
			t.Error(err)
		}
		if got, _ := s.Seeds(t.Context()); !reflect.DeepEqual(got, want[1:]) {
			t.Errorf("after the end of a node: %q", got)
		}
		// Nothing answers for longer than the TTL: Register says so, and the entry
		// is gone without anybody's help.
		p.setDown("b:2379", true)
		<-time.After(20 * time.Second)
		synctest.Wait()
		if err := end2(); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Error(err)
		}
		if _, err := s.Seeds(t.Context()); err == nil {
			t.Error("an answer from nobody")
		}
		p.setDown("b:2379", false)
		if got, err := s.Seeds(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestEtcdSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEtcd(t)
		p := &inProcess{handler: f}
		s := mustParse(t, "etcd:http://a:2379/ringcache", Options{Transport: p})
		end := register(t, s, "10.0.0.1:7001")
		<-time.After(time.Second)
		synctest.Wait()
		f.mu.Lock()
		f.revoke("7587880000001") // as an operator might
		f.mu.Unlock()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if err := end(); err == nil || !strings.Contains(err.Error(), "dropped the lease") {
			t.Error(err)
		}
		f.keys["ringcache/x"] = fakeKey{"not an address", ""}
		if got, err := s.Seeds(t.Context()); len(got) != 0 || err == nil || !strings.Contains(err.Error(), "for nodes only") {
			t.Errorf("%q, %v", got, err)
		}
		f.password = "x"
		if _, err := s.Seeds(t.Context()); err == nil || !strings.Contains(err.Error(), "discovery-token") {
			t.Error(err)
		}
		wrong := mustParse(t, "etcd:http://a:2379/ringcache", Options{Transport: p, Token: "ring:y"})
		if _, err := wrong.Seeds(t.Context()); err == nil || !strings.Contains(err.Error(), `user "ring"`) || !strings.Contains(err.Error(), "authentication failed") {
			t.Error(err)
		}
		if err := s.(Registrar).Register(t.Context(), "nowhere"); err == nil {
			t.Error("registered nowhere")
		}
	})
}

// Over a real connection: what is no etcd, too long an answer, a redirect.
func TestHTTPIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		says   string
	}{
		{"page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "does not answer in JSON"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"kvs":[`+strings.Repeat(`{"key":"Zm9v"},`, MaxBody/10))
		}, "more than 1048576 bytes"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		}, "302"},
		{"missing", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "404"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, strings.Repeat("x", 5000))
		}, "500"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(tc.answer))
		_, err := mustParse(t, "etcd:"+srv.URL+"/ringcache", Options{}).Seeds(t.Context())
		srv.Close()
		if err == nil || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
