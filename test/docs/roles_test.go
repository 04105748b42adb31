package docs

import (
	"regexp"
	"strings"
	"testing"
)

// A user who can create pods in a namespace gets a token of each ServiceAccount there. The built-in roles read and write Secrets.
func TestNoBuiltInRoleIsBoundToAServiceAccount(t *testing.T) {
	t.Parallel()
	forUsers := regexp.MustCompile(`^(README\.md$|(docs|examples|charts|config)/)`)
	for _, file := range listFiles(t) {
		if !forUsers.MatchString(file) {
			continue
		}
		for _, found := range builtInBindings(read(t, file)) {
			t.Errorf("%s binds a built-in role to a ServiceAccount: %s", file, found)
		}
	}
}

const builtIn = `["']?(edit|admin|cluster-admin)([^\w-]|$)`

var (
	builtInOption    = regexp.MustCompile(`--clusterrole[= ]` + builtIn)
	serviceAccount   = regexp.MustCompile(`(--|system:)serviceaccount`)
	builtInRef       = regexp.MustCompile(`roleRef:\s*(\{[^}]*\b|((apiGroup|kind):.*\s+)*)name:\s*` + builtIn)
	betweenDocuments = regexp.MustCompile("(?m)^\\s*(---|```).*$")
)

// builtInBindings returns the commands and the references in RoleBindings of a text that bind a built-in role to a ServiceAccount.
func builtInBindings(text string) (found []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		if builtInOption.MatchString(line) && serviceAccount.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	for _, document := range betweenDocuments.Split(text, -1) {
		if strings.Contains(document, "kind: ServiceAccount") {
			found = append(found, builtInRef.FindAllString(document, -1)...)
		}
	}
	return found
}

func TestBuiltInBindings(t *testing.T) {
	t.Parallel()
	const (
		create  = "kubectl create rolebinding x "
		binding = "kind: RoleBinding\nmetadata: {name: admin}\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: "
		flow    = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "
		account = "subjects: [{kind: ServiceAccount, name: edit, namespace: shop}]\n"
	)
	for text, want := range map[string]bool{
		create + "--clusterrole=edit --serviceaccount=shop:x":                       true,
		create + "--serviceaccount shop:x --clusterrole admin":                      true,
		create + "--clusterrole=cluster-admin \\\n  --serviceaccount=shop:x":        true,
		create + "--clusterrole=edit --user=system:serviceaccount:shop:x":           true,
		create + "--clusterrole=edit --user=jane\n" + "--serviceaccount=shop:x":     false,
		create + "--clusterrole=edit-dead-letters --serviceaccount=shop:x":          false,
		binding + "edit\n" + account:                                                true,
		binding + "view\n" + account:                                                false,
		binding + "edit\nsubjects: [{kind: User, name: jane}]\n":                    false,
		binding + "edit\nsubjects: [{kind: User, name: jane}]\n---\n" + account:     false,
		account + flow + "admin}\n":                                                 true,
		"```yaml\n" + account + "```\n" + "```yaml\n" + flow + "admin}\n" + "```\n": false,
	} {
		if found := builtInBindings(text); len(found) > 0 != want {
			t.Errorf("found %q in:\n%s", found, text)
		}
	}
}
