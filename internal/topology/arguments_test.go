package topology_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestArgumentTableNamesFieldsThatExist(t *testing.T) {
	t.Parallel()
	for _, row := range topology.ArgumentTable {
		if !slices.Contains([]string{"int", "string", "bool"}, row.Type) {
			t.Errorf("%s: type %q", row.Name, row.Type)
		}
		if row.Name == vhost.ArgQueueType {
			continue // from no field
		}
		for field := range strings.SplitSeq(row.Field, ", ") {
			if !hasField(reflect.TypeFor[v1alpha1.ConsumerQueueSpec](), strings.Split(strings.ReplaceAll(field, "[]", ""), ".")) {
				t.Errorf("%s: a ConsumerQueue has no field %s", row.Name, field)
			}
		}
	}
}

func hasField(in reflect.Type, path []string) bool {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if len(path) == 0 {
		return true
	}
	if in.Kind() != reflect.Struct {
		return false
	}
	for _, field := range reflect.VisibleFields(in) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == path[0] {
			return hasField(field.Type, path[1:])
		}
	}
	return false
}

// TestRefusedArgumentsAreThoseOfTheTable compares the names in the CEL rules of queue.arguments and deadLetter.queue.arguments
// with the table: an argument with a row must not be set in free arguments.
func TestRefusedArgumentsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	crd, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "messaging.warren.dev_consumerqueues.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(string(crd)), " ") // a long rule is folded over lines
	lists := regexp.MustCompile(`k in \[([^\]]*)\]`).FindAllStringSubmatch(flat, -1)
	if len(lists) != 2 {
		t.Fatalf("%d lists of arguments with a field of their own, want one for each queue", len(lists))
	}
	var own []string
	for _, row := range topology.ArgumentTable {
		follows := row.Name == vhost.ArgQueueType || strings.HasPrefix(row.Name, "x-dead-letter-") || strings.HasPrefix(row.Name, "x-delayed-retry-")
		if !follows { // those are refused by other rules, by prefix
			own = append(own, row.Name)
		}
	}
	for _, list := range lists {
		var refused []string
		for _, quoted := range regexp.MustCompile(`''?([a-z-]+)''?`).FindAllStringSubmatch(list[1], -1) {
			refused = append(refused, quoted[1])
		}
		topologytest.Equal(t, "refused arguments", own, refused)
	}
}
