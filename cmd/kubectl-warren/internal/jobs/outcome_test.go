package jobs

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// The condition Ready decides the outcome of a job; numbers in the status do not.
func TestOutcomeOfJob(t *testing.T) {
	t.Parallel()
	const ended = `completionTime: "2026-01-31T12:00:00Z", `
	for name, test := range map[string]struct {
		job    client.Object
		status string
		want   Outcome
	}{
		"no status yet":      {&v1alpha1.Redrive{}, `{}`, Pending},
		"it moves messages":  {&v1alpha1.Redrive{}, `{total: 9, conditions: [{type: Ready, status: Unknown, reason: Moving}]}`, Pending},
		"it waits for users": {&v1alpha1.Redrive{}, `{conditions: [{type: Ready, status: "False", reason: DestinationFull}, {type: Stalled, status: "True"}]}`, Stalled},
		"all moved":          {&v1alpha1.Redrive{}, `{` + ended + `total: 9, examined: 9, moved: 9, conditions: [{type: Ready, status: "True", reason: Completed}]}`, Completed},
		"it has its limit":   {&v1alpha1.Redrive{}, `{` + ended + `total: 9, examined: 5, moved: 3, conditions: [{type: Ready, status: "True", reason: Completed}]}`, Completed},
		"finished before":    {&v1alpha1.Redrive{}, `{` + ended + `conditions: [{type: Ready, status: "True", reason: AlreadyFinished}]}`, Completed},
		"messages failed":    {&v1alpha1.Redrive{}, `{` + ended + `total: 9, examined: 9, moved: 8, failed: 1, conditions: [{type: Ready, status: "False", reason: Incomplete}]}`, Incomplete},
		"messages not seen":  {&v1alpha1.Purge{}, `{` + ended + `total: 9, examined: 8, deleted: 8, conditions: [{type: Ready, status: "False", reason: Incomplete}]}`, Incomplete},
		"a dry run":          {&v1alpha1.Purge{}, `{` + ended + `total: 9, examined: 9, matched: 4, conditions: [{type: Ready, status: "True", reason: DryRun}]}`, Completed},
		"cancelled":          {&v1alpha1.Redrive{}, `{` + ended + `conditions: [{type: Ready, status: "False", reason: Cancelled}]}`, Cancelled},
		"it failed":          {&v1alpha1.Purge{}, `{` + ended + `conditions: [{type: Ready, status: "False", reason: MoreThanExpected}]}`, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := yaml.UnmarshalStrict([]byte("status: "+test.status), test.job); err != nil {
				t.Fatal(err)
			}
			if got := Of(test.job).Outcome; got != test.want {
				t.Errorf("outcome %q, want %q", got, test.want)
			}
		})
	}
}
