package discovery

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// inProcess carries requests to a handler without a network, so that time may be
// virtual. Hosts that are down do not answer.
type inProcess struct {
	handler http.Handler

	mu   sync.Mutex
	down map[string]bool
}

func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	down := p.down[r.URL.Host]
	p.mu.Unlock()
	if down {
		return nil, fmt.Errorf("connection to %s refused", r.URL.Host)
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func (p *inProcess) setDown(host string, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down == nil {
		p.down = map[string]bool{}
	}
	p.down[host] = down
}

// strict decodes a request's JSON body and refuses fields that the API does not
// have.
func strict(t *testing.T, w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || d.More() {
		t.Errorf("%s %s: body %q: %v", r.Method, r.URL, body, err)
		http.Error(w, `{"error":"bad request","code":3}`, http.StatusBadRequest)
		return false
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: Content-Type %q", r.URL, got)
	}
	return true
}
