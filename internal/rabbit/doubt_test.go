package rabbit_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/test/hostile"
)

// A client replaces a policy that dead-letters to an exchange by a binding, after a refresh has read the bindings and before it reads the
// policies. The exchange is in use all the time, and every snapshot shows that.
func TestChangeDuringARefreshIsSeen(t *testing.T) {
	t.Parallel()
	moved := false
	server := hostile.NewManagement(t, func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/")
		switch {
		case strings.HasPrefix(path, "queues/"):
			_, _ = io.WriteString(w, `[{"name": "q", "type": "quorum", "durable": true}]`)
		case strings.HasPrefix(path, "exchanges/") && !r.URL.Query().Has("page"):
			_, _ = io.WriteString(w, `[{"name": "dlx", "type": "fanout"}, {"name": "before", "type": "fanout"}]`)
		case strings.HasPrefix(path, "bindings/") && moved:
			_, _ = io.WriteString(w, `[{"source": "before", "destination": "dlx", "destination_type": "exchange"}]`)
		case strings.HasPrefix(path, "policies/") && !moved:
			_, _ = io.WriteString(w, `[{"name": "p", "pattern": "q", "apply-to": "queues", "definition": {"dead-letter-exchange": "dlx"}}]`)
		default:
			return false
		}
		return true
	})
	server.Tags = "management"
	armed := false
	management := managementThrough(t, server.URI, nil, func(usual http.RoundTripper) http.RoundTripper {
		return switching{usual, "/api/policies/", &armed, &moved}
	})
	var s snapshot.Store
	leads := func() bool { return len(s.Current.Policies) > 0 || len(s.Current.BindingsFrom["before"]) > 0 }
	read := func() (again bool) {
		fresh, err := snapshot.ReadListings(t.Context(), management, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, again = s.Replace(fresh, "")
		if !leads() {
			t.Error("nothing leads to the exchange")
		}
		return again
	}
	if again := read(); again {
		t.Error("a first refresh has nothing to doubt")
	}
	armed = true
	if again := read(); !again {
		t.Error("the policy is missing, and the connection does not search for it")
	}
	if again := read(); again || len(s.Current.Policies) > 0 {
		t.Error("the policy is still believed to be there")
	}
}

// switching sets a flag right before the first request to a path.
type switching struct {
	http.RoundTripper
	path        string
	armed, flag *bool
}

func (s switching) RoundTrip(request *http.Request) (*http.Response, error) {
	if *s.armed && strings.HasPrefix(request.URL.EscapedPath(), s.path) {
		*s.flag = true
	}
	return s.RoundTripper.RoundTrip(request)
}

// Listings must not be read in pages, because queues that are created and deleted move later queues from page to page. Here each request
// deletes one queue and creates one, so that their number does not change.
func TestListingsMissNoQueue(t *testing.T) {
	t.Parallel()
	var low, high, stable []string
	for i := range 1001 {
		low, stable = append(low, fmt.Sprintf("a%04d", i)), append(stable, fmt.Sprintf("q%04d", i))
	}
	server := hostile.NewManagement(t, hostile.At("queues/", func(w http.ResponseWriter, r *http.Request) {
		low, high = low[1:], append(high, fmt.Sprintf("z%04d", len(high)))
		names := slices.Concat(low, stable, high)
		count, _ := strconv.Atoi(r.URL.Query().Get("page_size"))
		if count == 0 {
			_, _ = io.WriteString(w, "["+items(names)+"]")
			return
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		shown := names[(page-1)*count : min(page*count, len(names))]
		_, _ = fmt.Fprintf(w, `{"items": [%s], "page_count": %d, "filtered_count": %d}`, items(shown), (len(names)+count-1)/count, len(names))
	}))
	management := managementAt(t, server.URI, nil)
	for range 5 {
		fresh, err := snapshot.ReadListings(t.Context(), management, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range stable {
			if _, exists := fresh.Queues[name]; !exists {
				t.Errorf("queue %q is not seen", name)
			}
		}
	}
}

func items(names []string) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{"name": %q, "type": "classic", "durable": true}`, name)
	}
	return strings.Join(items, ",")
}
