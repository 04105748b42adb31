package jobs

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func TestOutcomeOfFinishedJob(t *testing.T) {
	t.Parallel()
	const ready = `completionTime: "2026-01-31T12:00:00Z", conditions: [{type: Ready, status: "True", reason: Completed}], `
	for name, test := range map[string]struct {
		job  client.Object
		yaml string
		want Outcome
	}{
		"a Redrive that moved all messages":    {&v1alpha1.Redrive{}, `status: {` + ready + `total: 9, examined: 9, moved: 9}`, Completed},
		"a Redrive of an empty queue":          {&v1alpha1.Redrive{}, `status: {` + ready + `total: 0}`, Completed},
		"a Redrive that skipped messages":      {&v1alpha1.Redrive{}, `status: {` + ready + `total: 9, examined: 9, moved: 1, skipped: {NotSelected: 8}}`, Completed},
		"a Redrive that reached its limit":     {&v1alpha1.Redrive{}, `{spec: {limit: 3}, status: {` + ready + `total: 9, examined: 5, moved: 3}}`, Completed},
		"a Redrive below its limit":            {&v1alpha1.Redrive{}, `{spec: {limit: 3}, status: {` + ready + `total: 9, examined: 5, moved: 2}}`, Incomplete},
		"a Redrive with a failed message":      {&v1alpha1.Redrive{}, `status: {` + ready + `total: 9, examined: 9, moved: 8, failed: 1}`, Incomplete},
		"a Redrive that did not see messages":  {&v1alpha1.Redrive{}, `status: {` + ready + `total: 1204, examined: 900, moved: 900}`, Incomplete},
		"a Redrive whose condition says so":    {&v1alpha1.Redrive{}, `status: {completionTime: "2026-01-31T12:00:00Z", conditions: [{type: Ready, status: "False", reason: Incomplete}]}`, Incomplete},
		"a dry run that did not see messages":  {&v1alpha1.Redrive{}, `{spec: {dryRun: true}, status: {` + ready + `total: 9, examined: 8, moved: 8}}`, Incomplete},
		"a Purge that deleted all matches":     {&v1alpha1.Purge{}, `status: {` + ready + `total: 9, examined: 9, matched: 4, deleted: 4}`, Completed},
		"a Purge that deleted fewer":           {&v1alpha1.Purge{}, `status: {` + ready + `total: 9, examined: 9, matched: 4, deleted: 3}`, Incomplete},
		"a Purge that did not see messages":    {&v1alpha1.Purge{}, `status: {` + ready + `total: 9, examined: 8, matched: 4, deleted: 4}`, Incomplete},
		"a dry run of a Purge":                 {&v1alpha1.Purge{}, `{spec: {dryRun: true}, status: {` + ready + `total: 9, examined: 9, matched: 4}}`, Completed},
		"a Purge whose ConsumerQueue was gone": {&v1alpha1.Purge{}, `status: {completionTime: "2026-01-31T12:00:00Z", conditions: [{type: Ready, status: "False", reason: ConsumerQueueGone}]}`, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := yaml.UnmarshalStrict([]byte(test.yaml), test.job); err != nil {
				t.Fatal(err)
			}
			if got := OutcomeOf(test.job); got != test.want {
				t.Errorf("outcome %q, want %q", got, test.want)
			}
		})
	}
}
