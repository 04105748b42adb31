package deadletterapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// list returns the dead-letter queues of a namespace, or of all, from the manager's caches, without a request to a broker.
func (h *Handler) list(ctx context.Context, namespace string) (*v1alpha1.DeadLetterQueueList, error) {
	queues, redrives, purges := &messaging.ConsumerQueueList{}, &messaging.RedriveList{}, &messaging.PurgeList{}
	for _, list := range []client.ObjectList{queues, redrives, purges} {
		if err := h.reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list resources: %w", err)
		}
	}
	return listing.List(queues.Items, redrives.Items, purges.Items), nil
}

// queueSelector returns the label selector and the field selector of a request as one function.
func queueSelector(values url.Values) (selects func(v1alpha1.DeadLetterQueue) bool, err error) {
	byLabel, err := labels.Parse(values.Get("labelSelector"))
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	byField, err := fields.ParseSelector(values.Get("fieldSelector"))
	if err != nil {
		return nil, fmt.Errorf("fieldSelector: %w", err)
	}
	for _, requirement := range byField.Requirements() {
		if requirement.Field != fieldName && requirement.Field != fieldNamespace {
			return nil, fmt.Errorf("fieldSelector: %q must be %s or %s", requirement.Field, fieldName, fieldNamespace)
		}
	}
	return func(queue v1alpha1.DeadLetterQueue) bool {
		return byLabel.Matches(labels.Set(queue.Labels)) &&
			byField.Matches(fields.Set{fieldName: queue.Name, fieldNamespace: queue.Namespace})
	}, nil
}

// The fields of a field selector.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// wantsTable reports whether a client such as kubectl requests a table.
func wantsTable(accept string) bool {
	for wanted := range strings.SplitSeq(accept, ",") {
		parameters := strings.ReplaceAll(wanted, " ", "")
		if strings.HasPrefix(parameters, "application/json") && strings.Contains(parameters, ";as=Table") &&
			strings.Contains(parameters, ";v=v1;") && strings.Contains(parameters, ";g=meta.k8s.io") {
			return true
		}
	}
	return false
}

// tableOf formats queues for kubectl get.
func tableOf(queues []v1alpha1.DeadLetterQueue, now time.Time) *metav1.Table {
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String()},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the ConsumerQueue"},
			{Name: "Queue", Type: "string", Description: "the dead-letter queue at the broker"},
			{Name: "Messages", Type: "string", Description: "the number of messages at the last count"},
			{Name: "Counted", Type: "string", Description: "the age of the last count"},
			{
				Name: "Under way", Type: "string",
				Description: "the number of messages that running Redrives and Purges have yet to examine, move or delete",
			},
		},
		Rows: []metav1.TableRow{},
	}
	for i := range queues {
		queue := &queues[i]
		messages, counted := "<unknown>", "<unknown>"
		if queue.Messages != nil {
			messages, counted = fmt.Sprint(*queue.Messages), ago(now, queue.AsOf)
		}
		underWay := "<unknown>"
		if queue.UnderWay != nil {
			underWay = fmt.Sprint(*queue.UnderWay)
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells: []any{queue.Name, queue.Queue, messages, counted, underWay},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()},
				ObjectMeta: queue.ObjectMeta,
			}},
		})
	}
	return table
}

// ago formats an age as kubectl does.
func ago(now time.Time, then *metav1.Time) string { return duration.HumanDuration(now.Sub(then.Time)) }
