package docs

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Argo CD runs the health check of docs/gitops.md as Lua, with the resource as obj.
func TestArgoCDHealthCheck(t *testing.T) {
	t.Parallel()
	script := healthCheck(t)
	ready := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Message: "the message of Ready"}
	}
	also := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Message: "the message of " + kind}
	}
	for name, test := range map[string]struct {
		observed   int64
		conditions []metav1.Condition
		want       string
	}{
		"without a status":                       {0, nil, "Progressing: not reconciled yet"},
		"of a former generation":                 {1, []metav1.Condition{ready("True")}, "Progressing: not reconciled yet"},
		"in sync":                                {2, []metav1.Condition{ready("True")}, "Healthy: the message of Ready"},
		"Reconciling is in progress":             {2, []metav1.Condition{ready("False"), also("Reconciling")}, "Progressing: the message of Ready"},
		"Stalled is failed":                      {2, []metav1.Condition{ready("False"), also("Stalled")}, "Degraded: the message of Stalled"},
		"suspended when it was Ready":            {2, []metav1.Condition{ready("True"), also("Suspended")}, "Suspended: the message of Suspended"},
		"suspended before it ever became Ready":  {2, []metav1.Condition{ready("Unknown"), also("Suspended")}, "Suspended: the message of Suspended"},
		"Ready with a recreation that may wait":  {2, []metav1.Condition{ready("True"), also("RecreationRequired")}, "Healthy: the message of Ready"},
		"Ready is Unknown, and nothing else yet": {2, []metav1.Condition{ready("Unknown")}, "Progressing: the message of Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := v1alpha1.ConsumerQueue{}
			cq.Generation = 2
			cq.Status.ObservedGeneration, cq.Status.Conditions = test.observed, test.conditions
			if got := run(t, script, &cq); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// healthCheck takes the script out of docs/gitops.md.
func healthCheck(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, "docs/gitops.md"), "## Argo CD")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	config := struct{ Data map[string]string }{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	const key = "resource.customizations.health.messaging.warren.dev_"
	script := config.Data[key+"ConsumerQueue"]
	if script == "" || config.Data[key+"BrokerConnection"] != script {
		t.Fatalf("the kinds have not one health check: %v", config.Data)
	}
	return script
}

// run returns the health that the script tells, and its message.
func run(t *testing.T, script string, object any) string {
	t.Helper()
	content, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := yaml.Unmarshal(content, &decoded); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, decoded))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", state.Get(-1))
	}
	return health.RawGetString("status").String() + ": " + health.RawGetString("message").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		made := state.NewTable()
		for key, inner := range value {
			made.RawSetString(key, luaValue(state, inner))
		}
		return made
	case []any:
		made := state.NewTable()
		for _, inner := range value {
			made.Append(luaValue(state, inner))
		}
		return made
	case string:
		return lua.LString(value)
	case float64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	}
	return lua.LNil
}
