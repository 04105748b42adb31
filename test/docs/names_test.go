package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// foreign lists names that look like ours but are not. A path is listed by its last element.
var foreign = slices.Concat(
	strings.Fields("FreeFlow MassTransit OpenAPI OpenTelemetry TypeScript flag macOS"),  // products, and a package of Go
	strings.Fields("crd.yaml cqueue.yaml install.yaml kubectl-warren.yaml"),             // arguments of commands, and files of a release
	strings.Fields("release-notes.md"),                                                  // also of a release
	strings.Fields("versions.yaml"),                                                     // of a report
	strings.Fields("WithConsumerOptionsQOSPrefetch consumer.Close wagslane"),            // another library for consumers
	strings.Fields("addConfirmListener addReturnListener getNextPublishSeqNo"),          // the RabbitMQ client for Java
	strings.Fields("CorrelationData getReturned"),                                       // Spring AMQP
	strings.Fields("BlockingChannel DeliveryError NackError"),                           // pika and aio-pika
	strings.Fields("Channel.dispatch Channel.recvContent closeResources notifyTimeout"), // amqp091-go
	strings.Fields("helm.sh htmx.org"),                                                  // domains
	strings.Fields("PriorityClass aggregationRule involvedObject renewTime subPath"),    // kinds and fields of Kubernetes
	strings.Fields("dependsOn healthCheckExprs healthChecks ignoreDifferences"),         // fields of Flux and Argo CD
	strings.Fields("cooldownPeriod ruleSelector serviceMonitorSelector"),                // fields of KEDA and of the Prometheus Operator
	strings.Fields("deleteIfEmpty queue_controller.go"),                                 // the messaging topology operator
	strings.Fields("ForceNew ResourcesMap resource_queue.go"),                           // the Terraform provider
	strings.Fields("RabbitAdmin autoDeclare ignoreDeclarationExceptions purgeQueue"),    // also Spring AMQP
	strings.Fields("Connection.NotifyBlocked"),                                          // amqp091-go
)

// resources lists the first words of dotted paths in resources, in CEL and in AMQP.
var resources = strings.Fields("basic body channel confirm connection destination metadata self spec status")

// Names in pages and comments exist: paths, ADRs, make targets, environment variables, packages and identifiers.
func TestNames(t *testing.T) {
	t.Parallel()
	tree := readTree(t)
	for _, p := range tree.passages {
		for _, name := range tree.missing(p) {
			t.Errorf("%s:%d names `%s`, which does not exist", p.file, p.line, name)
		}
		if beginsWithAnotherName(p.text, p.documents) {
			t.Errorf("%s:%d: %q is the comment of %s", p.file, p.line, p.text, strings.Join(p.documents, ", "))
		}
	}
	if len(tree.passages) < 10_000 {
		t.Errorf("found only %d passages", len(tree.passages))
	}
}

// before matches the text before a name. After any other character, a match is the rest of a URL, a path or a longer name.
const before = `(?:^|[^\w./:@$*}>-])`

var (
	sources     = regexp.MustCompile(`\.(?:go|sh|cel|lua|md|yaml)$`)
	paths       = regexp.MustCompile(before + `((?:\.{1,2}/)*[\w.-]+(?:/[\w*-]+(?:\.[\w*-]+)*)+|[\w.-]+\.(?:go|sh|cel|lua|md|yaml)\b)`)
	adrs        = regexp.MustCompile(`\bADR (\d{4})\b`)
	makeCalls   = regexp.MustCompile("[`']make((?: [a-z][a-z0-9-]*)+)")
	packages    = regexp.MustCompile(`\b(?:by|from|in|of|to) package ([a-z]\w+)`)
	identifiers = regexp.MustCompile(before + `\$?(WARREN_[A-Z_]*[A-Z]|[a-zA-Z][a-z]+[A-Z]\w+)`)
	dotted      = regexp.MustCompile(before + `([a-zA-Z]\w*(?:\.[a-zA-Z]\w*)+)`)
	located     = regexp.MustCompile("`(\\w+)`\\sin\\s`(?:[\\w-]+/)+(\\w+)`")
)

// missing returns the names in a passage that do not exist in the tree.
func (tree *tree) missing(p passage) []string {
	var list []string
	check := func(form *regexp.Regexp, prefix string, exists func(name string) bool) {
		for _, found := range form.FindAllStringSubmatch(p.text, -1) {
			for name := range strings.FieldsSeq(found[1]) {
				if !exists(name) && !slices.Contains(foreign, path.Base(name)) && !slices.Contains(list, prefix+name) {
					list = append(list, prefix+name)
				}
			}
		}
	}
	check(paths, "", func(name string) bool { return tree.hasPath(p.file, name) })
	check(adrs, "ADR ", func(number string) bool { return tree.hasPath(p.file, "docs/adr/"+number+"-*") })
	check(makeCalls, "make ", func(target string) bool { return tree.targets[target] })
	check(packages, "package ", func(name string) bool { return tree.ours[name] || !strings.HasSuffix(p.file, ".go") })
	check(identifiers, "", func(name string) bool { return tree.code[name] || tree.code[strings.TrimSuffix(name, "s")] })
	check(dotted, "", func(name string) bool { return tree.hasMember(p.file, name) })
	for _, found := range located.FindAllStringSubmatch(p.text, -1) {
		if tree.ours[found[2]] && !tree.code[found[2]+"."+found[1]] {
			list = append(list, found[2]+"."+found[1])
		}
	}
	return list
}

// hasPath reports whether a name is a path relative to the root or the page, or the end of a path. A name with an asterisk must
// be the beginning of a path. Placeholders in capitals and files that are not sources are ignored.
func (tree *tree) hasPath(page, name string) bool {
	top, _, _ := strings.Cut(name, "/")
	isOutside := !tree.paths["./"+top] && !sources.MatchString(name)
	if tree.paths[name] || tree.paths[path.Join(path.Dir(page), name)] || isOutside || strings.ToLower(name) != name {
		return true
	}
	begin, _, isPattern := strings.Cut(name, "*")
	for known := range tree.paths {
		if isPattern && strings.HasPrefix(known, begin) {
			return true
		}
	}
	return false
}

// hasMember reports whether each element of a dotted name is a member of the element before it: a package, type or variable.
// Names of other projects are ignored. Two lower-case words may belong to another language, so only Go comments must resolve
// them.
func (tree *tree) hasMember(file, name string) bool {
	parts := strings.Split(name, ".")
	for i, member := range parts[1:] {
		owner := parts[i]
		isKnown, isOurs := tree.code[owner+"."+member], tree.ours[owner]
		if unicode.IsLower(rune(owner[0])) && unicode.IsLower(rune(member[0])) {
			isOurs = strings.HasSuffix(file, ".go") && !slices.Contains(resources, owner)
		}
		if !isKnown || !isOurs {
			return !isOurs || tree.code[name] || tree.paths[name] || sources.MatchString(name)
		}
	}
	return true
}

// beginsWithAnotherName reports whether a doc comment begins with a name that it does not document. A sentence begins with a
// capital letter, so any other first word is a name. The comment of a field may begin with its JSON name, and the comment of a
// test with any name.
func beginsWithAnotherName(comment string, documented []string) bool {
	first, _, _ := strings.Cut(comment, " ")
	isOwn := func(name string) bool { return strings.EqualFold(name, first) || strings.HasPrefix(name, "Test") }
	return regexp.MustCompile(`^[a-z]\w*$`).MatchString(first) && len(documented) > 0 && !slices.ContainsFunc(documented, isOwn)
}

func TestMissing(t *testing.T) {
	t.Parallel()
	tree := newTree()
	tree.targets["lint"] = true
	tree.addPath("docs/adr/0001-one.md")
	tree.addPath("internal/plan/diff.go")
	tree.addText("hack/run.sh", "x=$WARREN_CACHE # go test -run TestDiff")
	tree.addGo(t, "internal/plan/diff.go", `package plan
		type View struct { Vhost string }
		func (v *View) wants() { v.broker.apply(DefaultLimit, "RabbitMQ") }
		func decide() {}
		func TestDiff() {}`)
	for text, want := range map[string]string{
		"internal/plan/diff.go, `plan/diff.go`, diff.go, internal/plan": "",
		"internal/plan/gone.go, `plan/gone.go`, gone.go, internal/gone": "internal/plan/gone.go plan/gone.go gone.go internal/gone",
		"internal/*/diff.go and docs/no/*":                              "docs/no/*",
		"https://example.com/docs/x.md, testdata/NAME.golden, dist/x":   "",
		"ADR 0001 and ADR 0002":                                         "ADR 0002",
		"`make lint`, `make lint gone X=y`, make sense":                 "make gone",
		"$WARREN_CACHE, $WARREN_GONE, TestDiff, TestGone, TestX":        "WARREN_GONE TestGone",
		"DefaultLimits, goneAway, GoneAway, RabbitMQ":                   "goneAway GoneAway",
		"plan.View.Vhost, plan.Diff, View.wants, View.gone":             "plan.Diff View.gone",
		"amqp.Table, broker.apply, broker.gone, spec.gone":              "broker.gone",
		"`decide` in `internal/plan`, `gone` in `internal/plan`":        "plan.gone",
		"by package plan, in package gone":                              "package gone",
	} {
		if got := strings.Join(tree.missing(passage{file: "internal/x.go", text: text}), " "); got != want {
			t.Errorf("%s: missing %q, want %q", text, got, want)
		}
	}
}

func TestPassages(t *testing.T) {
	t.Parallel()
	tree := newTree()
	tree.addPage("x.md", "a `b`\n\n```sh\nmake c # d\n```\n`e` in\n`f` and\n`g\nh`")
	tree.addText("x.sh", "a ${b#c} # d\n# e")
	tree.addGo(t, "x.go", "package x\n\n// a b\n//\tc\n// +d\nconst e, f = 1, 2 // g\n/* h\ni */")
	want := []passage{
		{"x.md", 1, "`b`", nil},
		{"x.md", 4, "`make c`", nil},
		{"x.md", 6, "`e` in\n`f`", nil},
		{"x.md", 8, "`g\nh`", nil},
		{"x.sh", 1, "d", nil},
		{"x.sh", 2, "e", nil},
		{"x.go", 3, "a b", []string{"e", "f"}},
		{"x.go", 6, "g", nil},
		{"x.go", 7, "/* h", nil},
		{"x.go", 8, "i */", nil},
	}
	if difference := cmp.Diff(want, tree.passages, cmp.AllowUnexported(passage{})); difference != "" {
		t.Errorf("passages (-want +got):\n%s", difference)
	}
}

func TestBeginsWithAnotherName(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]bool{
		"retrySoon is a number.": false,
		"retryLater, too.":       false,
		"retryAfter is a number": true,
		"limit is a number.":     true,
		"A limit is a number.":   false,
		"caSecretRef is a name.": false,
	} {
		if got := beginsWithAnotherName(comment, []string{"retrySoon", "retryLater,", "CASecretRef"}); got != want {
			t.Errorf("%q: %v, want %v", comment, got, want)
		}
	}
}
