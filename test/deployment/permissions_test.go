package deployment

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	. "github.com/warren-mq/warren/test/testenv"
)

const serviceAccount = "warren-controller-manager"

// permission is one verb on one resource.
type permission struct{ group, resource, verb string }

func (p permission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", p.verb, p.resource, p.group))
}

// role is a Role or, without a namespace, a ClusterRole that is bound to the manager's ServiceAccount.
type role struct {
	namespace, name string
	permissions     []permission
}

var _ = Describe("The permissions of the manager", func() {
	It("are sufficient for all of its tasks", func() {
		s := startFixture(whole, "")
		s.runTasks()
		Expect(s.refused()).To(BeEmpty())
		s.Stop()
		Expect(strings.ToLower(s.log.String())).NotTo(ContainSubstring("forbidden"))
	})

	for _, role := range roles {
		for _, taken := range role.permissions {
			It(fmt.Sprintf("need %s in %s: without it the API server refuses a task", taken, role.name), Extended, func() {
				revoke(role, taken)
				s := startFixture(whole, "")
				s.runTasks()
				Expect(s.refused()).To(ConsistOf(taken), "if nothing was refused, nothing needs the permission: remove it")
			})
		}
	}
})

// revoke removes a permission from a role until the test ends.
func revoke(from role, taken permission) {
	GinkgoHelper()
	left := slices.DeleteFunc(slices.Clone(from.permissions), func(p permission) bool { return p == taken })
	setRules(from, left)
	DeferCleanup(func() {
		setRules(from, from.permissions)
		awaitAccess(from.namespace, taken, true, "the permission was not restored")
	})
	awaitAccess(from.namespace, taken, false, "another role has the same permission: remove it from one of them")
}

func setRules(of role, permissions []permission) {
	GinkgoHelper()
	rules := []rbacv1.PolicyRule{}
	for _, p := range permissions {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: []string{p.verb}})
	}
	var object client.Object = &rbacv1.ClusterRole{Rules: rules}
	if of.namespace != "" {
		object = &rbacv1.Role{Rules: rules}
	}
	object.SetNamespace(of.namespace)
	object.SetName(of.name)
	Expect(whole.Update(context.Background(), object)).To(Succeed())
}

// awaitAccess waits until the API server applies changed roles.
func awaitAccess(namespace string, p permission, allowed bool, why string) {
	GinkgoHelper()
	resource, sub, _ := strings.Cut(p.resource, "/")
	Eventually(func(g Gomega) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + system + ":" + serviceAccount,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: p.group, Resource: resource, Subresource: sub, Verb: p.verb,
			},
		}}
		g.Expect(whole.Create(context.Background(), review)).To(Succeed())
		return review.Status.Allowed
	}).Should(Equal(allowed), why)
}

// manifest has the common fields of the roles and bindings.
type manifest struct {
	Kind     string
	Metadata struct{ Namespace, Name string }
	Rules    []rbacv1.PolicyRule
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// rolesIn returns the roles that a kustomization binds to the manager's ServiceAccount.
func rolesIn(t *testing.T, folder string) []role {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), KubectlPath(), "kustomize", folder).Output()
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	var all []manifest
	for text := range strings.SplitSeq(string(output), "\n---\n") {
		one := manifest{}
		if err := yaml.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("kustomize %s: %v", folder, err)
		}
		all = append(all, one)
	}
	var bound []role
	for _, binding := range all {
		isOurs := func(s rbacv1.Subject) bool {
			return s.Kind == "ServiceAccount" && s.Namespace == system && s.Name == serviceAccount
		}
		if slices.ContainsFunc(binding.Subjects, isOurs) {
			bound = append(bound, roleOf(t, all, binding))
		}
	}
	return bound
}

func roleOf(t *testing.T, all []manifest, binding manifest) role {
	t.Helper()
	for _, one := range all {
		if one.Kind != binding.RoleRef.Kind || one.Metadata.Name != binding.RoleRef.Name || one.Metadata.Namespace != binding.Metadata.Namespace {
			continue
		}
		found := role{namespace: one.Metadata.Namespace, name: one.Metadata.Name}
		for _, rule := range one.Rules {
			if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
				t.Fatalf("%s %s: this test does not support these rules: %+v", one.Kind, one.Metadata.Name, rule)
			}
			found.permissions = append(found.permissions, permissionsOf(rule)...)
		}
		return found
	}
	t.Fatalf("%s %s: there is no %s %s", binding.Kind, binding.Metadata.Name, binding.RoleRef.Kind, binding.RoleRef.Name)
	return role{}
}

func permissionsOf(rule rbacv1.PolicyRule) []permission {
	var list []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				list = append(list, permission{group, resource, verb})
			}
		}
	}
	return list
}
