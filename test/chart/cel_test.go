package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	policycel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The oldest Kubernetes that the chart supports knows every function and macro in the CEL of the CRDs and admission policies.
func TestOldestKubernetesKnowsTheCEL(t *testing.T) {
	t.Parallel()
	compiler := newCELCompiler(oldestKubernetes(t))
	rules, policies := 0, 0
	for name, object := range render(t, "helm", "--set=consumerContracts.enabled=true") {
		switch object.GetKind() {
		case "CustomResourceDefinition":
			crd := &apiextensionsv1.CustomResourceDefinition{}
			convert(t, object.Object, crd)
			for _, served := range crd.Spec.Versions {
				compiler.compileSchema(t, name, structural(t, served.Schema.OpenAPIV3Schema), true)
			}
			rules += rulesIn(object.Object)
		case "ValidatingAdmissionPolicy":
			policy := &admissionv1.ValidatingAdmissionPolicy{}
			convert(t, object.Object, policy)
			compiler.compilePolicy(t, name, policy)
			policies++
		}
	}
	if rules == 0 || compiler.rules != rules {
		t.Errorf("compiled %d rules of %d", compiler.rules, rules)
	}
	if policies != 2 {
		t.Errorf("the chart has %d policies", policies)
	}
}

// The environment of the oldest Kubernetes lacks the additions of later versions.
func TestOlderKubernetesLacksNewerCEL(t *testing.T) {
	t.Parallel()
	for expression, since := range map[string]uint{
		"quantity('1Gi').isInteger()":                        29,
		"isIP('10.0.0.1')":                                   31,
		"!format.dns1123Label().validate('a').hasValue()":    32,
		"['a'].transformList(i, v, v + 'b').exists(x, true)": 33,
		"isSemver('1.0.0')":                                  34,
	} {
		for _, minor := range []uint{since - 1, since} {
			compiler := newCELCompiler(version.MajorMinor(1, minor))
			known := compiler.compile(expression, cel.BoolType, policycel.OptionalVariableDeclarations{}) == nil
			if known != (minor == since) {
				t.Errorf("Kubernetes 1.%d knows %s: %t", minor, expression, known)
			}
		}
	}
}

// celCompiler compiles new expressions like the API server of one Kubernetes version.
type celCompiler struct {
	environment *environment.EnvSet
	policy      policycel.Compiler
	// rules is the number of compiled rules.
	rules int
}

// newCELCompiler returns a compiler for a version of Kubernetes. New expressions may only use what the version before knew, so
// that the API server can be rolled back.
func newCELCompiler(kubernetes *version.Version) *celCompiler {
	set := environment.MustBaseEnvSet(kubernetes.SubtractMinor(1))
	return &celCompiler{environment: set, policy: policycel.NewCompiler(set)}
}

// compileSchema compiles the rules of a schema and of all schemas inside it.
func (c *celCompiler) compileSchema(t *testing.T, path string, s *schema.Structural, isRoot bool) {
	t.Helper()
	results, err := schemacel.Compile(s, model.SchemaDeclType(s, isRoot), celconfig.PerCallLimit, c.environment, schemacel.NewExpressionsEnvLoader())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for i, result := range results {
		c.rules++
		if result.Error != nil {
			t.Errorf("%s: %s\n%s", path, s.XValidations[i].Rule, result.Error.Detail)
		}
		if result.MessageExpressionError != nil {
			t.Errorf("%s: %s\n%s", path, s.XValidations[i].MessageExpression, result.MessageExpressionError.Detail)
		}
	}
	for name, property := range s.Properties {
		c.compileSchema(t, path+"."+name, &property, false)
	}
	if s.Items != nil {
		c.compileSchema(t, path+"[]", s.Items, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		c.compileSchema(t, path+".*", s.AdditionalProperties.Structural, false)
	}
}

func (c *celCompiler) compilePolicy(t *testing.T, name string, policy *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	options := policycel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	if len(policy.Spec.Variables) > 0 || len(policy.Spec.AuditAnnotations) > 0 {
		t.Errorf("%s has variables or audit annotations, which this test does not compile yet", name)
	}
	check := func(expression string, returns *cel.Type) {
		if expression == "" {
			return
		}
		if err := c.compile(expression, returns, options); err != nil {
			t.Errorf("%s: %s\n%v", name, expression, err)
		}
	}
	for _, condition := range policy.Spec.MatchConditions {
		check(condition.Expression, cel.BoolType)
	}
	for _, validation := range policy.Spec.Validations {
		check(validation.Expression, cel.BoolType)
		check(validation.MessageExpression, cel.StringType)
	}
}

// compile compiles an expression of an admission policy.
func (c *celCompiler) compile(expression string, returns *cel.Type, options policycel.OptionalVariableDeclarations) error {
	result := c.policy.CompileCELExpression(policyExpression{expression, returns}, options, environment.NewExpressions)
	if result.Error != nil {
		return result.Error
	}
	return nil
}

// rulesIn returns the number of rules in a CRD.
func rulesIn(node any) int {
	count := 0
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			count += rulesIn(item)
		}
	case map[string]any:
		for name, value := range node {
			if rules, ok := value.([]any); ok && name == "x-kubernetes-validations" {
				count += len(rules)
			}
			count += rulesIn(value)
		}
	}
	return count
}

// policyExpression implements policycel.ExpressionAccessor.
type policyExpression struct {
	text    string
	returns *cel.Type
}

func (e policyExpression) GetExpression() string { return e.text }

func (e policyExpression) ReturnTypes() []*cel.Type { return []*cel.Type{e.returns} }

// oldestKubernetes returns the version in the chart's kubeVersion.
func oldestKubernetes(t *testing.T) *version.Version {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "charts", "warren", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "kubeVersion:") })
	if at < 0 {
		t.Fatal("Chart.yaml has no kubeVersion")
	}
	least := regexp.MustCompile(`>=(1\.\d+)\.0`).FindStringSubmatch(lines[at])
	if least == nil {
		t.Fatalf("%s names no oldest version", lines[at])
	}
	return version.MustParse(least[1])
}

// structural returns the structural schema of a CRD.
func structural(t *testing.T, written *apiextensionsv1.JSONSchemaProps) *schema.Structural {
	t.Helper()
	whole := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, whole, nil); err != nil {
		t.Fatal(err)
	}
	made, err := schema.NewStructural(whole)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// convert decodes an object into its type, and fails for unknown fields.
func convert(t *testing.T, object map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, into, true); err != nil {
		t.Fatal(err)
	}
}
