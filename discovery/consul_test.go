package discovery

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConsul is an agent as far as the documentation describes what is used here.
type fakeConsul struct {
	t     *testing.T
	token string

	mu        sync.Mutex
	instances map[string]*fakeInstance
	node      string // address of the machine
}

type fakeInstance struct {
	registration
	ttl    time.Duration
	passed time.Time
}

func (f *fakeConsul) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != r.Header.Get("X-Consul-Token") {
		http.Error(w, "Permission denied: token with AccessorID '' lacks permission", http.StatusForbidden)
		return
	}
	get := func(prefix string) (string, bool) { return strings.CutPrefix(r.URL.Path, prefix) }
	want := http.MethodPut
	if _, ok := get("/v1/health/service/"); ok {
		want = http.MethodGet
	}
	if r.Method != want {
		f.t.Errorf("%s %s", r.Method, r.URL)
		http.Error(w, "method", http.StatusMethodNotAllowed)
		return
	}
	if name, ok := get("/v1/health/service/"); ok {
		f.health(w, r, name)
	} else if id, ok := get("/v1/agent/check/pass/service:"); ok {
		in := f.instances[id]
		if in == nil {
			http.Error(w, fmt.Sprintf("Unknown check ID %q. Ensure that the check ID is passed, not the check name.", "service:"+id), http.StatusNotFound)
			return
		}
		in.passed = time.Now()
	} else if id, ok := get("/v1/agent/service/deregister/"); ok {
		if f.instances[id] == nil {
			http.Error(w, fmt.Sprintf("Unknown service ID %q", id), http.StatusNotFound)
		}
		delete(f.instances, id)
	} else if r.URL.Path == "/v1/agent/service/register" && r.URL.RawQuery == "replace-existing-checks=true" {
		f.register(w, r)
	} else {
		f.t.Errorf("no such path: %s", r.URL)
		http.NotFound(w, r)
	}
}

func (f *fakeConsul) register(w http.ResponseWriter, r *http.Request) {
	in := &fakeInstance{passed: time.Now()}
	if !strict(f.t, w, r, &in.registration) {
		return
	}
	ttl, err := time.ParseDuration(in.Check.TTL)
	after, err2 := time.ParseDuration(in.Check.DeregisterCriticalServiceAfter)
	if err != nil || err2 != nil || after < time.Minute || in.Check.Status != "passing" || in.Check.CheckID != "service:"+in.ID || in.Name == "" || in.Port == 0 {
		f.t.Errorf("%+v", in.registration)
	}
	in.ttl = ttl
	f.instances[in.ID] = in
}

func (f *fakeConsul) health(w http.ResponseWriter, r *http.Request, name string) {
	if r.URL.RawQuery != "passing=true" {
		f.t.Errorf("query %q", r.URL.RawQuery)
	}
	out := []map[string]any{}
	for _, in := range f.instances {
		if in.Name == name && (in.ttl == 0 || time.Since(in.passed) < in.ttl) {
			out = append(out, map[string]any{"Node": map[string]any{"Node": "machine", "Address": f.node},
				"Service": map[string]any{"ID": in.ID, "Address": in.Address, "Port": in.Port}, "Checks": []any{}})
		}
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		f.t.Error(err)
	}
}

func TestConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConsul{t: t, token: "acl", instances: map[string]*fakeInstance{}, node: "10.9.9.9"}
		p := &inProcess{handler: f}
		s := mustParse(t, "consul:http://127.0.0.1:8500/ringcache", Options{Token: "acl", Transport: p})
		end1, end2 := register(t, s, "10.0.0.1:7001"), register(t, s, "[fd00::1]:7002")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		want := []string{"10.0.0.1:7001", "[fd00::1]:7002"}
		if got, err := s.Seeds(t.Context()); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("kept passing for ten minutes: %q, %v", got, err)
		}
		if err := end1(); err != nil {
			t.Error(err)
		}
		if got, _ := s.Seeds(t.Context()); !reflect.DeepEqual(got, want[1:]) {
			t.Errorf("after the end of a node: %q", got)
		}
		f.mu.Lock()
		clear(f.instances) // the agent was set up anew
		f.mu.Unlock()
		<-time.After(6 * time.Second)
		synctest.Wait()
		if err := end2(); err == nil || !strings.Contains(err.Error(), "lost the entry") {
			t.Error(err)
		}
		f.instances["by hand"] = &fakeInstance{registration: registration{ID: "by hand", Name: "ringcache", Port: 7009}}
		if got, err := s.Seeds(t.Context()); !reflect.DeepEqual(got, []string{"10.9.9.9:7009"}) || err != nil {
			t.Errorf("without an address of its own it is the machine's: %q, %v", got, err)
		}
		f.instances["by hand"].Port = 0
		if got, err := s.Seeds(t.Context()); len(got) != 0 || err == nil || !strings.Contains(err.Error(), "data port") {
			t.Errorf("%q, %v", got, err)
		}
		f.token = "other"
		if _, err := s.Seeds(t.Context()); err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "discovery-token") {
			t.Error(err)
		}
	})
}

// A registry over TLS is trusted by its authority, and by nothing else.
func TestRegistryTLS(t *testing.T) {
	f := &fakeConsul{t: t, instances: map[string]*fakeInstance{}}
	srv := httptest.NewUnstartedServer(f)
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mustParse(t, "consul:"+srv.URL+"/ringcache", Options{CA: ca}).Seeds(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := mustParse(t, "consul:"+srv.URL+"/ringcache", Options{}).Seeds(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("trusted without an authority: %v", err)
	}
	if _, err := Parse("consul:"+srv.URL+"/ringcache", Options{CA: os.DevNull}); err == nil {
		t.Error("a file without certificates was taken")
	}
}
