package hostile

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pause is the delay between two bytes of a slow server.
const pause = 10 * time.Second

// Ways returns ways to misbehave, by name. None of them ever sends a useful response.
func Ways() map[string]func(http.ResponseWriter, *http.Request) bool {
	const (
		parameter = `{"component": "operator_policy", "value": {}}`
		rest      = `"exchanges": [], "bindings": []}`
		empty     = `"queues": [], ` + rest
	)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	many, long := strings.Repeat(`{"":1},`, 50000)+`1]}}`, strings.Repeat("4", 100000)
	return map[string]func(http.ResponseWriter, *http.Request) bool{
		"one endless string":           At("whoami", Endless(`{"tags": ["`, "a")),
		"one endless number":           At("whoami", Endless(`{"tags": [1`, "1")),
		"endless space":                At("whoami", Endless(``, " ")),
		"endless zeros":                At("whoami", Endless("", "\x00")),
		"endless tags":                 At("whoami", Endless(`{"tags": [""`, `,""`)),
		"a bomb":                       At("whoami", Bomb(`{"tags": ["`, "a")),
		"a bomb of definitions":        At("definitions", Bomb(`{"queues": [{"name": "a"}`, `,{"name": "a"}`)),
		"a bomb in a refusal":          At("whoami", refusal(Bomb(`{"reason": "`, "a"))),
		"endless nodes":                At("nodes", Endless(`[{}`, `,{}`)),
		"endless exchanges":            At("exchanges", Endless(`{"items": [{}`, `,{}`)),
		"endless nothing":              At("definitions", Endless(`{"bindings": [{}`, `,{}`)),
		"endless queues":               At("definitions", Endless(`{"queues": [{"name": "a"}`, `,{"name": "a"}`)),
		"endless bindings":             At("definitions", Endless(`{"bindings": [{"source": "a"}`, `,{"source": "a"}`)),
		"endless policies":             At("definitions", Endless(`{"policies": [{}`, `,{}`)),
		"endless parameters":           At("definitions", Endless(`{"parameters": [`+parameter, ","+parameter)),
		"endless arguments":            At("definitions", Endless(`{"queues": [{"name": "a", "arguments": {"a": [{"":1}`, `,{"":1}`)),
		"many large arguments":         At("definitions", Endless(`{"bindings": [{}`, `,{"source": "a", "arguments": {"a": [`+many)),
		"deeply nested arguments":      At("definitions", Endless(`{"queues": [{}`, `,{"name": "a", "arguments": {"a": `+deep+`}}`)),
		"endless nesting":              At("definitions", Endless(`{"queues": [{"arguments": {"a": `, "[")),
		"an endless answer of unknown": At("definitions", Endless(`{"what": "`, "a")),
		"endless headers":              At("whoami", EndlessHeaders()),
		"endless hints":                At("whoami", EndlessHints()),
		"slow headers":                 At("whoami", DripHeaders(pause)),
		"a slow answer":                At("whoami", Drip(`{"tags": ["administrator"]}`, pause)),
		"slow definitions":             At("definitions", Drip(`{"queues": []}`, pause)),
		"silence":                      At("whoami", Silence),
		"silence in the middle":        At("definitions", Silence),
		"garbage":                      At("", Text("SSH-2.0-OpenSSH_9.9\r\n")),
		"HTML":                         At("", Text("<html><body>Welcome!</body></html>")),
		"a switch of protocols":        At("", SwitchingProtocols()),
		"a redirect to itself":         At("", Redirect("/api/whoami")),
		"null":                         At("definitions", Text(`null`)),
		"null for a list":              At("definitions", Text(`{"queues": null, "exchanges": [], "bindings": []}`)),
		"half a list of definitions":   At("definitions", Text(`{"queues": [], "exchanges": []`)),
		"definitions without a list":   At("definitions", Text(`{"queues": [], "exchanges": []}`)),
		"a list for definitions":       At("definitions", Text(`[]`)),
		"a number for a string":        At("definitions", Text(`{"queues": [{"name": 1}], "exchanges": [], "bindings": []}`)),
		"a string for a number":        At("definitions", Text(`{"policies": [{"name": "p", "priority": "1"}], `+empty)),
		"a list for a table":           At("definitions", Text(`{"queues": [{"name": "a", "arguments": [1]}], `+rest)),
		"a long cluster name":          At("overview", Text(`{"rabbitmq_version": "4.3.6", "cluster_name": "`+long+`"}`)),
		"a long version":               At("overview", Text(`{"rabbitmq_version": "`+long+`", "cluster_name": "a"}`)),
		"a version of no numbers":      At("overview", Text(`{"rabbitmq_version": "four", "cluster_name": "a"}`)),
	}
}

// HugeAnswers returns valid responses with a list that is longer than any real one, about size bytes, by the name of the list.
// Other endpoints respond normally.
func HugeAnswers(size int) map[string]func(http.ResponseWriter, *http.Request) bool {
	const membersPerQueue = 1000
	queue := func(i int) string { return fmt.Sprintf(`{"name":"%x","messages":1}`, i) }
	members := func(i int) string {
		names := make([]string, membersPerQueue)
		for n := range names {
			names[n] = fmt.Sprintf("%x", i*membersPerQueue+n)
		}
		return `{"name":"q` + strconv.Itoa(i) + `","members":["` + strings.Join(names, `","`) + `"]}`
	}
	owner := func(i int) string {
		return fmt.Sprintf(`{"client_properties":{"product":"Warren","warren_owner":"%x"}}`, i)
	}
	matchQueue := func(i int) string { return fmt.Sprintf(`{"name":"warren-link-%x"}`, i) }
	page := func(i int) string { return fmt.Sprintf(`{"name":"%x","type":"quorum"}`, i) }
	implicit := func(i int) string {
		return fmt.Sprintf(`{"source":"","destination":"%x","destination_type":"queue"}`, i)
	}
	// The answers of a probe are limited to 1 MiB, or consist of one item, which is limited too.
	probed := min(size, 1000<<10)
	builtin := func(i int) string { return fmt.Sprintf(`{"name":"amq.%x"}`, i) }
	tables := func(int) string { return `{"":1}` }
	noTag := func(int) string { return `""` }
	threeNodes := Text(`[{"name":"a"},{"name":"b"},{"name":"c"}]`)
	return map[string]func(http.ResponseWriter, *http.Request) bool{
		"queues":             At("definitions", Huge(size, `{"exchanges":[],"bindings":[],"queues":[`, page, "]}")),
		"tags":               At("whoami", Huge(probed, `{"tags":[`, noTag, "]}")),
		"built-in exchanges": AtQuery("exchanges", "page=", Huge(probed, `{"items":[`, builtin, "]}")),
		"arguments of a built-in exchange": AtQuery("exchanges", "page=",
			Huge(probed, `{"items":[{"name":"amq.x","arguments":{"a":[`, tables, "]}}]}")),
		"bindings":       At("definitions", Huge(size, `{"exchanges":[],"queues":[],"bindings":[`, implicit, "]}")),
		"members":        Either(At("nodes", threeNodes), AtQuery("queues", "members", Huge(size, "[", members, "]"))),
		"message counts": AtQuery("queues", "enable_queue_totals", Huge(size, "[", queue, "]")),
		"owners":         At("vhosts", Huge(size, "[", owner, "]")),
		"match queues":   AtQuery("queues", "warren-link", Huge(size, `{"page_count":2000000000,"items":[`, matchQueue, "]}")),
		"pages":          AtQuery("queues", "page=", Huge(size, `{"page_count":2000000000,"items":[`, page, "]}")),
	}
}

// WellFormed returns valid responses that cost a client more than a real broker does, by name: lists of about size bytes, and
// late responses.
func WellFormed(size int) map[string]func(http.ResponseWriter, *http.Request) bool {
	ways := map[string]func(http.ResponseWriter, *http.Request) bool{"late answers": late}
	for list, way := range HugeAnswers(size) {
		ways["huge "+list] = way
		ways["huge and late "+list] = Either(late, way)
	}
	return ways
}

// late responds normally, but not immediately.
func late(_ http.ResponseWriter, r *http.Request) bool {
	select {
	case <-time.After(pause / 4):
	case <-r.Context().Done():
	}
	return false
}

func refusal(body http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body(&refusing{w}, r)
	}
}

// refusing responds with a status other than 200.
type refusing struct{ http.ResponseWriter }

func (w *refusing) Write(text []byte) (int, error) {
	if w.Header().Get("X-Written") == "" {
		w.Header().Set("X-Written", "yes")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return w.ResponseWriter.Write(text)
}
