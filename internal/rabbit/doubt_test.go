package rabbit

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/hostile"
)

// What is missing for the first time stays until the vhost was read once more.
func TestMissingOnceIsNotGone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lose func(*snapshot)
		kept bool
	}{
		"nothing":  {func(*snapshot) {}, false},
		"queue":    {func(s *snapshot) { delete(s.queues, "r") }, true},
		"exchange": {func(s *snapshot) { delete(s.exchanges, "y") }, true},
		"binding": {func(s *snapshot) {
			s.bindingsFrom["x"], s.bindingsTo["q"] = slices.Delete(s.bindingsFrom["x"], 1, 2), s.bindingsTo["q"][1:]
		}, true},
		"binding with arguments": {func(s *snapshot) {
			s.bindingsFrom["y"] = s.bindingsFrom["y"][1:]
			delete(s.bindingsTo, "r")
		}, true},
		"policy":          {func(s *snapshot) { s.policies = s.policies[1:] }, true},
		"operator policy": {func(s *snapshot) { s.policies = s.policies[:1] }, true},
		"everything": {func(s *snapshot) {
			mine := s.bindingsTo["mine"][0]
			*s = *newSnapshot()
			s.queues["mine"] = vhost.Queue{Exclusive: true}
			s.addBinding(mine)
		}, true},
		"another cluster": {func(s *snapshot) { *s = *newSnapshot(); s.cluster = "another" }, false},
		"exclusive queue": {func(s *snapshot) {
			delete(s.queues, "mine")
			delete(s.bindingsTo, "mine")
			s.bindingsFrom["x"] = s.bindingsFrom["x"][1:]
		}, false},
	}
	vh := func() *snapshot {
		s := some()
		s.queues["mine"] = vhost.Queue{Exclusive: true}
		s.addBinding(vhost.Binding{Source: "x", Destination: "mine", RoutingKey: "c"})
		s.sort()
		return s
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lacking := func() *snapshot {
				s := vh()
				test.lose(s)
				return s
			}
			var s store
			s.replace(vh(), "")
			_, again := s.replace(lacking(), "")
			want := lacking()
			if test.kept {
				want = vh()
			}
			if again != test.kept {
				t.Errorf("is to be read again: %v", again)
			}
			if difference := cmp.Diff(want, s.current, compareSnapshots); difference != "" {
				t.Errorf("after one reading, wanted (-), is (+):\n%s", difference)
			}
			if _, again := s.replace(lacking(), ""); again {
				t.Error("is to be read a third time")
			}
			if difference := cmp.Diff(lacking(), s.current, compareSnapshots); difference != "" {
				t.Errorf("after two readings, wanted (-), is (+):\n%s", difference)
			}
		})
	}
}

// A policy that leads dead letters to an exchange is replaced by a binding that does, after the bindings were read and
// before the policies are. The exchange is in use all the time, and at no time seems not to be.
func TestWhatMovesDuringALookIsSeen(t *testing.T) {
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
	management := managementAt(t, server.URI, nil)
	var s store
	leads := func() bool { return len(s.current.policies) > 0 || len(s.current.bindingsFrom["before"]) > 0 }
	read := func() (again bool) {
		fresh, err := readListings(t.Context(), management, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, again = s.replace(fresh, "")
		if !leads() {
			t.Error("nothing leads to the exchange")
		}
		return again
	}
	if again := read(); again {
		t.Error("a first look has nothing to doubt")
	}
	management.client.Transport = switching{management.client.Transport, "/api/policies/", &moved}
	if again := read(); !again {
		t.Error("the policy went missing and is not looked for")
	}
	if again := read(); again || len(s.current.policies) > 0 {
		t.Error("the policy is still believed to be there")
	}
}

// switching sets a flag right before the first request to a path.
type switching struct {
	http.RoundTripper
	path string
	flag *bool
}

func (s switching) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasPrefix(request.URL.EscapedPath(), s.path) {
		*s.flag = true
	}
	return s.RoundTripper.RoundTrip(request)
}

// Queues that come and go in front of others move these from page to page: listings must not be read in pages. Here one goes
// and one comes with each request, so that their number stays the same.
func TestListingsMissNothingThatStays(t *testing.T) {
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
		fresh, err := readListings(t.Context(), management, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range stable {
			if _, exists := fresh.queues[name]; !exists {
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
