package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

//go:embed */consumerqueues.yaml */expect.json
var files embed.FS

// Vector is one or more ConsumerQueues in a vhost, and the expected objects.
type Vector struct {
	Name           string
	ConsumerQueues []v1alpha1.ConsumerQueue
	// States are in ascending order of versions.
	States []State
}

// State contains all objects of a vhost from one RabbitMQ version on, in the format of definitions.
type State struct {
	// From is the first version for which the state is expected.
	From      string     `json:"from"`
	Exchanges []Exchange `json:"exchanges"`
	Queues    []Queue    `json:"queues"`
	Bindings  []Binding  `json:"bindings"`
}

// Exchange is an exchange that is not auto-delete or internal and has no arguments.
type Exchange struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Durable bool   `json:"durable"`
}

// Queue is a durable queue.
type Queue struct {
	Name      string          `json:"name"`
	Arguments vhost.Arguments `json:"arguments"`
}

// Binding is a binding of a queue to an exchange.
type Binding struct {
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	RoutingKey  string          `json:"routing_key"`
	Arguments   vhost.Arguments `json:"arguments"`
}

// Load reads all vectors, sorted by name, and normalizes their arguments.
func Load(tb testing.TB) []Vector {
	tb.Helper()
	folders, err := fs.Glob(files, "*")
	if err != nil {
		tb.Fatalf("list conformance vectors: %v", err)
	}
	vectors := make([]Vector, 0, len(folders))
	for _, folder := range folders {
		vectors = append(vectors, Vector{
			Name:           folder,
			ConsumerQueues: consumerQueues(tb, path.Join(folder, "consumerqueues.yaml")),
			States:         states(tb, path.Join(folder, "expect.json")),
		})
	}
	return vectors
}

// Named returns the vector with a name.
func Named(tb testing.TB, name string) Vector {
	tb.Helper()
	for _, vector := range Load(tb) {
		if vector.Name == name {
			return vector
		}
	}
	tb.Fatalf("there is no vector %q", name)
	return Vector{}
}

// Expect returns the expected state for a version. It returns false if the resources must be UnsupportedByBroker and the virtual
// host empty.
func (v Vector) Expect(version vhost.Version) (State, bool) {
	var holding State
	found := false
	for _, state := range v.States {
		from, err := vhost.ParseVersion(state.From)
		if err == nil && version.AtLeast(from) { // Load has checked that it parses
			holding, found = state, true
		}
	}
	return holding, found
}

func consumerQueues(tb testing.TB, file string) []v1alpha1.ConsumerQueue {
	tb.Helper()
	var all []v1alpha1.ConsumerQueue
	documents := yaml.NewYAMLToJSONDecoder(bytes.NewReader(read(tb, file)))
	for {
		var document json.RawMessage
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		var cq v1alpha1.ConsumerQueue
		strict(tb, file, document, &cq)
		all = append(all, cq)
	}
}

func states(tb testing.TB, file string) []State {
	tb.Helper()
	var all []State
	strict(tb, file, read(tb, file), &all)
	last := vhost.Version{}
	for _, state := range all {
		from, err := vhost.ParseVersion(state.From)
		if err != nil || last.AtLeast(from) {
			tb.Fatalf("%s: from %q: versions must ascend (%v)", file, state.From, err)
		}
		last = from
		for i := range state.Queues {
			state.Queues[i].Arguments = vhost.Normalize(state.Queues[i].Arguments)
		}
		for i := range state.Bindings {
			state.Bindings[i].Arguments = vhost.Normalize(state.Bindings[i].Arguments)
		}
	}
	return all
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	content, err := files.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

// strict decodes YAML or JSON and refuses unknown fields, which no test would check.
func strict(tb testing.TB, file string, content []byte, into any) {
	tb.Helper()
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
}
