package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func exampleReport() *report {
	r := &report{machine: machine{
		date: "2026-11-23", cores: 2, memory: 24 << 30, commit: "abc", manager: "warren v1", rabbitMQ: "4.3.6", erlang: "29", tick: 5 * time.Second, kubernetes: "v1.37.0",
	}}
	for _, count := range []int{100, 1100} {
		scale := time.Duration(count)
		r.rows = append(r.rows,
			row{count: count, layout: "own", phase: "bare declare", took: scale * 10 * time.Millisecond, cpu: cpu{broker: time.Second, machine: 2 * time.Second}},
			row{
				count: count, layout: "own", phase: "bare API", took: scale * 20 * time.Millisecond, cpu: cpu{apiServer: time.Second, machine: 2 * time.Second},
				writes: counts{"POST consumerqueues": 100},
			},
			row{
				count: count, layout: "own", phase: "create", took: scale * 12 * time.Millisecond, bare: scale * 10 * time.Millisecond,
				bareAPI: scale * 20 * time.Millisecond,
				http:    counts{"GET /definitions/{vhost}": 2}, amqp: counts{"queue.declare": 300}, writes: counts{"PATCH consumerqueues": 100, "POST events": 99},
				cpu:  cpu{manager: time.Second / 2, apiServer: time.Second, broker: time.Second, machine: 3 * time.Second},
				peak: 50<<20 + int64(count)*15<<10, note: "a note",
			})
	}
	return r
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	want := strings.TrimSpace(`
Measured on 2026-11-23 in 0s, at commit abc (manager warren v1), on 2 cores and 24 GiB of memory, with RabbitMQ 4.3.6 (quorum queues tick every 5s) on Erlang 29 and Kubernetes v1.37.0, all on this machine.

| N | layout | phase | s | × bare | × both bare | ms each | HTTP | AMQP | API writes | Events | manager CPU s | API server CPU s | broker CPU s | others CPU s | peak MiB | notes |
| --: | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |
| 100 | own | bare declare | 1.0 |  |  | 10.0 |  |  |  |  |  | 0.0 | 1.0 | 1.0 |  |  |
| 100 | own | bare API | 2.0 |  |  | 20.0 |  |  |  |  |  | 1.0 | 0.0 | 1.0 |  |  |
| 100 | own | create | 1.2 | 1.20 | 0.40 | 12.0 | 2 | 300 | 100 | 99 | 0.5 | 1.0 | 1.0 | 0.5 | 51 | a note |
| 1100 | own | bare declare | 11.0 |  |  | 10.0 |  |  |  |  |  | 0.0 | 1.0 | 1.0 |  |  |
| 1100 | own | bare API | 22.0 |  |  | 20.0 |  |  |  |  |  | 1.0 | 0.0 | 1.0 |  |  |
| 1100 | own | create | 13.2 | 1.20 | 0.40 | 12.0 | 2 | 300 | 100 | 99 | 0.5 | 1.0 | 1.0 | 0.5 | 66 | a note |

From the smallest number to the largest:

- ` + "`own`" + `: the time for each at 1100, compared with that at 100: bare declare 1.00, bare API 1.00, create 1.00. The manager's memory at its peak is 50 MiB and 15.0 KiB for each during create.

### What bounds each phase

Shares of the time of all 2 cores, at the largest number:

| layout | phase | busy | manager | API server | broker | others | requests to the broker | writes to the API server |
| --- | --- | --: | --: | --: | --: | --: | --- | --- |
| own | bare declare | 9% | 0% | 0% | 5% | 5% |  |  |
| own | bare API | 5% | 0% | 2% | 0% | 2% |  | POST consumerqueues 100 |
| own | create | 11% | 2% | 4% | 4% | 2% | GET /definitions/{vhost} 2; queue.declare 300 | PATCH consumerqueues 100, POST events 99 |
`)
	r := exampleReport()
	r.began = time.Now()
	if difference := cmp.Diff(want, r.markdown()); difference != "" {
		t.Errorf("(- wanted, + got):\n%s", difference)
	}
}

func TestReplaceBetween(t *testing.T) {
	t.Parallel()
	page := "# A\n\n" + beginMarker + "\nold\n" + endMarker + "\n\nrest\n"
	got, err := replaceBetween(page, "new")
	if want := "# A\n\n" + beginMarker + "\n\nnew\n\n" + endMarker + "\n\nrest\n"; err != nil || got != want {
		t.Errorf("%q %v, not %q", got, err, want)
	}
	for _, page := range []string{"", beginMarker, endMarker, endMarker + beginMarker} {
		if got, err := replaceBetween(page, "new"); err == nil {
			t.Errorf("%q: %q and no error", page, got)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	if got, want := spread([]time.Duration{3 * time.Second, 0, time.Second}), "1s (median), 3s (longest)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got, want := spread(nil), "no time"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	r := row{
		took: time.Minute, cpu: cpu{manager: 600 * time.Millisecond}, amqp: counts{"queue.declare": 120},
		http: counts{"GET /definitions/{vhost} (not_modified)": 2, "GET /queues/{vhost}": 1, "GET /queues/{vhost}/{queue}": 2, "GET /nodes": 1},
	}
	want := "manager 1.0% of a core; per interval of 30s, 1.0 conditional requests, 0.5 message counts, 1.5 others"
	if got := idleNote(r, 30*time.Second); got != want {
		t.Errorf("%q, not %q", got, want)
	}
	want = "manager 1.0% of a core; 0.1 HTTP and 2.0 AMQP requests per second"
	if got := tiersNote(r); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
