package testenv

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EventuallyReasons waits until the reasons of the Events about a resource match. The oldest reason comes first, and each appears
// as often as its Event was recorded. client-go writes the second record of an Event immediately, and later ones only after minutes.
func (w *World) EventuallyReasons(name string, matcher types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(w.reasons).WithArguments(name).Should(matcher, "reasons of the Events about "+name)
}

// ConsistentlyReasons is EventuallyReasons, and then checks for some seconds that no further Event follows.
func (w *World) ConsistentlyReasons(name string, matcher types.GomegaMatcher) {
	GinkgoHelper()
	w.EventuallyReasons(name, matcher)
	Consistently(w.reasons).WithArguments(name).Should(matcher, "reasons of the Events about "+name)
}

func (w *World) reasons(name string) []string {
	GinkgoHelper()
	var reasons []string
	for _, event := range w.EventsSoFar() {
		if event.Regarding.Name == name {
			reasons = append(reasons, slices.Repeat([]string{event.Reason}, Times(event))...)
		}
	}
	return reasons
}

// EventuallyEvents waits until the Events with a reason match, the oldest first.
func (w *World) EventuallyEvents(reason string, matcher types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(w.with).WithArguments(reason).Should(matcher, "Events with the reason "+reason)
}

// ConsistentlyNoEvents checks for some seconds that there is no Event with a reason.
func (w *World) ConsistentlyNoEvents(reason string) {
	GinkgoHelper()
	Consistently(w.with).WithArguments(reason).Should(BeEmpty(), "Events with the reason "+reason)
}

func (w *World) with(reason string) []eventsv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(w.EventsSoFar(), func(event eventsv1.Event) bool { return event.Reason != reason })
}

// EventsSoFar returns the current Events of the namespace, the oldest first. The manager writes an Event some time after its
// cause. So a test may count these Events before an action or poll them, but must not expect one.
func (w *World) EventsSoFar() []eventsv1.Event {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(w.Kube.List(ctx(), list, client.InNamespace(w.Namespace))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return list.Items
}

// Times returns how often an Event was recorded.
func Times(event eventsv1.Event) int {
	if event.Series != nil {
		return int(event.Series.Count)
	}
	return 1
}
