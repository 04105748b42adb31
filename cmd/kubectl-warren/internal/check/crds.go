package check

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Resources are the API resources that Warren needs, with the Go types of this version.
var Resources = map[string]reflect.Type{
	"brokerconnections": reflect.TypeFor[v1alpha1.BrokerConnection](),
	"consumerqueues":    reflect.TypeFor[v1alpha1.ConsumerQueue](),
	"purges":            reflect.TypeFor[v1alpha1.Purge](),
	"redrives":          reflect.TypeFor[v1alpha1.Redrive](),
}

// Fields are the fields of an object in a schema, by name. Each value is a Fields; nil for a field without subfields. The type is not
// recursive, because kube-api-linter does not terminate on recursive types.
type Fields map[string]any

func (f Fields) below(name string) Fields {
	fields, _ := f[name].(Fields)
	return fields
}

// Served is what the API server serves.
type Served struct {
	// Resources are the names of the resources of messaging.warren.dev/v1alpha1.
	Resources []string
	// Schemas are the fields by resource. A resource without schema is not compared.
	Schemas map[string]Fields
}

// CRDs checks that the API server serves each resource with the fields of this version.
func CRDs(served Served, pluginVersion string) Result {
	result := Result{State: OK, Check: "CRDs", Object: v1alpha1.GroupVersion.String()}
	needed := slices.Sorted(maps.Keys(Resources))
	missing := slices.DeleteFunc(slices.Clone(needed), func(name string) bool { return slices.Contains(served.Resources, name) })
	if len(missing) > 0 {
		result.State = Failed
		result.Message = "the API server does not serve " + strings.Join(missing, ", ")
		result.Remedy = "Install the CRDs, and check --context: " + docs + "installation/"
		return result
	}
	older, newer := compareSchemas(served.Schemas)
	result.Message = "the API server serves " + strings.Join(needed, ", ")
	switch {
	case len(older) > 0:
		result.State = Warning
		result.Message = fmt.Sprintf("the CRDs are older than kubectl warren %s: the API server drops %s", pluginVersion, abbreviate(older))
		result.Remedy = "Upgrade the CRDs, then the manager: " + docs + "installation/#upgrade"
	case len(newer) > 0:
		result.State = Warning
		result.Message = fmt.Sprintf("the CRDs are newer than kubectl warren %s, which does not know %s", pluginVersion, abbreviate(newer))
		result.Remedy = "Install kubectl warren of the manager's version: " + docs + "kubectl-warren/#install"
	}
	return result
}

// abbreviate lists the first names.
func abbreviate(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// compareSchemas returns the fields that only this version has, and the fields that only the API server has.
func compareSchemas(schemas map[string]Fields) (older, newer []string) {
	for _, resource := range slices.Sorted(maps.Keys(schemas)) {
		for _, part := range []string{"spec", "status"} {
			known := fieldsOf(Resources[resource]).below(part)
			served := schemas[resource].below(part)
			older = append(older, only(resource+"."+part, known, served)...)
			newer = append(newer, only(resource+"."+part, served, known)...)
		}
	}
	return older, newer
}

// only returns the paths of fields that the first has and the second lacks. It descends only into fields that have subfields in both.
func only(path string, first, second Fields) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		_, has := second[name]
		switch below := second.below(name); {
		case !has:
			paths = append(paths, path+"."+name)
		case below != nil:
			paths = append(paths, only(path+"."+name, first.below(name), below)...)
		}
	}
	return paths
}

// fieldsOf returns the fields of a Go type by their JSON names. A type of another package, such as a time, counts as a value.
func fieldsOf(kind reflect.Type) Fields {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || kind.PkgPath() != reflect.TypeFor[v1alpha1.ConsumerQueue]().PkgPath() {
		return nil
	}
	fields := Fields{}
	for _, field := range reflect.VisibleFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			fields[name] = fieldsOf(field.Type)
		}
	}
	return fields
}
