package deployment

import (
	"context"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
)

var (
	reading   = []string{"get", "list", "watch"}
	writing   = []string{"create", "delete", "deletecollection", "patch", "update"}
	resources = []string{"brokerconnections", "consumerqueues", "redrives", "purges"}
)

var _ = Describe("A user who has, in a namespace, the built-in role", Ordered, func() {
	BeforeAll(func() {
		aggregateRoles()
		whole.Kubectl("create", "namespace", "shop")
		for _, name := range []string{"view", "edit", "admin"} {
			whole.Kubectl("create", "rolebinding", name, "--namespace=shop", "--clusterrole="+name, "--user=the-"+name)
			// RBAC applies roles and bindings with a delay.
			Eventually(func() bool { return may("the-"+name, "get", "consumerqueues", "", "shop") }).Should(BeTrue())
			Eventually(func() bool { return may("the-"+name, "create", "consumerqueues", "", "shop") }).Should(Equal(name != "view"))
		}
	})

	// A Purge deletes messages irrevocably, so the role edit may not create one.
	for name, verbs := range map[string][]string{
		"view":  reading,
		"edit":  slices.Concat(reading, writing),
		"admin": slices.Concat(reading, writing, []string{"whatever-comes"}),
	} {
		It(name+" has the same permissions on Warren's resources as on Kubernetes' own, only in that namespace", func() {
			user := "the-" + name
			for _, resource := range resources {
				verbs := verbs
				if resource == "purges" && name == "edit" {
					verbs = reading
				}
				for _, verb := range slices.Concat(reading, writing, []string{"whatever-comes"}) {
					Expect(may(user, verb, resource, "", "shop")).To(Equal(slices.Contains(verbs, verb)), "%s %s", verb, resource)
					Expect(may(user, verb, resource, "", "bank")).To(BeFalse(), "%s %s in another namespace", verb, resource)
					Expect(may(user, verb, resource, "status", "shop")).To(Equal(verb == "get"), "%s %s/status", verb, resource)
				}
			}
		})
	}

	// An export has the headers that seem to hold credentials.
	It("view can count dead letters, edit can also read them, and only admin can export them", func() {
		all := []string{"", deadletters.SubresourceMessages, deadletters.SubresourceExport}
		for name, subresources := range map[string][]string{"view": all[:1], "edit": all[:2], "admin": all} {
			for _, subresource := range all {
				Expect(may("the-"+name, "get", deadletters.Resource, subresource, "shop")).To(
					Equal(slices.Contains(subresources, subresource)), "%s %s", name, subresource)
			}
		}
	})

	// No role may write a status, and no viewer may read a Secret.
	It("view can read resources, but neither write them nor read Secrets", func() {
		viewer := as("the-view")
		Expect(viewer.List(ctx(), &v1alpha1.ConsumerQueueList{}, client.InNamespace("shop"))).To(Succeed())
		Expect(viewer.Create(ctx(), queueOf("shop"))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(may("the-view", "get", "secrets", "", "shop")).To(BeFalse())
	})

	It("edit cannot request a Redrive in another user's name", func() {
		redrive := func(by string) *v1alpha1.Redrive {
			return &v1alpha1.Redrive{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "orders-"},
				Spec:       v1alpha1.RedriveSpec{ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: "orders"}, RequestedBy: by},
			}
		}
		editor := as("the-edit")
		// The API server applies a new policy with a delay.
		Eventually(func() error { return editor.Create(ctx(), redrive("the-admin")) }).Should(SatisfyAll(
			MatchError(apierrors.IsForbidden, "IsForbidden"),
			MatchError(ContainSubstring("spec.requestedBy must be the-edit, who creates the Redrive: correct or remove spec.requestedBy")),
		))
		Expect(editor.Create(ctx(), redrive("the-edit"))).To(Succeed())
		Expect(editor.Create(ctx(), redrive(""))).To(Succeed())
		Expect(as("the-view").Create(ctx(), redrive(""))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

		whole.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "requested-by"))
		DeferCleanup(func() { whole.Kubectl("delete", "-k", filepath.Join(config, "requested-by")) })
		Eventually(func() (string, error) { // the API server refuses requests until it applies a new policy
			anonymous := redrive("")
			err := editor.Create(ctx(), anonymous)
			return anonymous.Spec.RequestedBy, err
		}).Should(Equal("the-edit"), "config/requested-by fills in who asks")
		Expect(editor.Create(ctx(), redrive("the-admin"))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		restored := redrive("")
		restored.Annotations = map[string]string{v1alpha1.CompletedAtAnnotation: "2026-01-01T00:00:00Z"}
		Expect(editor.Create(ctx(), restored)).To(Succeed())
		Expect(restored.Spec.RequestedBy).To(BeEmpty(), "a user who restores a finished Redrive has not requested it")
	})

	It("admin cannot request a Purge in another user's name, and edit cannot create one", func() {
		purge := func(by string) *v1alpha1.Purge {
			return &v1alpha1.Purge{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "orders-"},
				Spec: v1alpha1.PurgeSpec{
					ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: "orders"}, ExpectedAtMost: 1, RequestedBy: by,
				},
			}
		}
		admin := as("the-admin")
		Eventually(func() error { return admin.Create(ctx(), purge("the-edit")) }).Should(SatisfyAll(
			MatchError(apierrors.IsForbidden, "IsForbidden"),
			MatchError(ContainSubstring("spec.requestedBy must be the-admin, who creates the Purge: correct or remove spec.requestedBy")),
		))
		Expect(admin.Create(ctx(), purge("the-admin"))).To(Succeed())
		Expect(admin.Create(ctx(), purge(""))).To(Succeed())
		Expect(as("the-edit").Create(ctx(), purge(""))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	It("restores finished Redrives and Purges of other users, which stay finished", func() {
		meta := metav1.ObjectMeta{
			Namespace: "shop", GenerateName: "orders-",
			Annotations: map[string]string{v1alpha1.CompletedAtAnnotation: "2026-01-01T00:00:00Z"},
		}
		from := v1alpha1.LocalObjectReference{Name: "orders"}
		for user, restored := range map[string]client.Object{
			"the-edit":  &v1alpha1.Redrive{ObjectMeta: meta, Spec: v1alpha1.RedriveSpec{ConsumerQueueRef: from, RequestedBy: "alice"}},
			"the-admin": &v1alpha1.Purge{ObjectMeta: meta, Spec: v1alpha1.PurgeSpec{ConsumerQueueRef: from, ExpectedAtMost: 1, RequestedBy: "alice"}},
		} {
			Expect(as(user).Create(ctx(), restored)).To(Succeed())
			restored.SetAnnotations(nil)
			// The API server applies a new policy with a delay.
			Eventually(func() error { return as(user).Update(ctx(), restored, client.DryRunAll) }).Should(SatisfyAll(
				MatchError(apierrors.IsForbidden, "IsForbidden"),
				MatchError(ContainSubstring("the annotation messaging.warren.dev/completed-at cannot be removed: create another ")),
			))
		}
	})

	It("edit can create and delete ConsumerQueues, but not write their status", func() {
		editor, cq := as("the-edit"), queueOf("shop")
		Expect(editor.Create(ctx(), queueOf("bank"))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(editor.Create(ctx(), cq)).To(Succeed())
		cq.Status.QueueName = "another"
		Expect(editor.Status().Update(ctx(), cq)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(editor.Delete(ctx(), cq)).To(Succeed())
	})
})

func queueOf(namespace string) *v1alpha1.ConsumerQueue {
	return &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"}}
}

// aggregateRoles adds the rules of the roles that their aggregationRule selects to the built-in roles. envtest does not run the
// controller that does this.
func aggregateRoles() {
	GinkgoHelper()
	for _, name := range []string{"view", "edit", "admin"} { // each is included in the next
		role := &rbacv1.ClusterRole{}
		Eventually(func() error { return whole.Get(ctx(), client.ObjectKey{Name: name}, role) }).Should(Succeed())
		role.Rules = nil
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			matching, err := metav1.LabelSelectorAsSelector(&selector)
			Expect(err).NotTo(HaveOccurred())
			list := &rbacv1.ClusterRoleList{}
			Expect(whole.List(ctx(), list, client.MatchingLabelsSelector{Selector: matching})).To(Succeed())
			for _, selected := range list.Items {
				role.Rules = append(role.Rules, selected.Rules...)
			}
		}
		Expect(whole.Update(ctx(), role)).To(Succeed())
	}
}

func may(user, verb, resource, subresource, namespace string) bool {
	GinkgoHelper()
	group := v1alpha1.GroupVersion.Group
	switch resource {
	case "secrets":
		group = ""
	case deadletters.Resource:
		group = deadletters.GroupVersion.Group
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: group, Resource: resource, Subresource: subresource, Verb: verb,
		},
	}}
	Expect(whole.Create(context.Background(), review)).To(Succeed())
	return review.Status.Allowed
}

// as returns a client of a user.
func as(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(whole.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	kube, err := client.New(config, client.Options{Scheme: whole.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return kube
}
