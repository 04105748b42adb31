// Package redrive is what a Redrive does: it selects dead letters, and decides where they go and with which headers. What a Redrive has
// in common with a Purge, such as the wait for a turn and the transfer, is in package transfers.
package redrive

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=redrives/status,verbs=update

// eventRedriven is the reason of an Event on the ConsumerQueue.
const eventRedriven = "Redriven"

// work is one reconciliation of a Redrive.
type work struct {
	redrive *v1alpha1.Redrive
	job     transfers.Job
	status  *v1alpha1.RedriveStatus // of the Redrive
	finder  *deadletterqueue.Finder
}

// Start is the Work of a Redrive.
func Start(object client.Object, finder *deadletterqueue.Finder) transfers.Work {
	redrive := object.(*v1alpha1.Redrive)
	return &work{redrive: redrive, job: transfers.JobOf(redrive), status: &redrive.Status, finder: finder}
}

func (w *work) Job() transfers.Job { return w.job }

// Heed takes over how the transfer fares, and says what becomes of the Redrive when the transfer has ended by itself.
func (w *work) Heed(task transfers.Task) *transfers.Halt {
	if !task.HasBegun() {
		return nil
	}
	record(w.status, task)
	if !task.Ended || task.Stopped {
		return nil
	}
	why := outcome(w.status, w.job.DryRun, w.redrive.Spec.MaxMessages, task.Err)
	if task.Move.Limited { // each try gives a message back
		why.Retry = 0
	}
	return why
}

// Config says what the transfer of a Redrive does.
func (w *work) Config(m transfers.Move) (transfer.Config, *transfers.Halt) {
	judge, wrong := judgeOf(w.redrive, m)
	if wrong != nil {
		return transfer.Config{}, wrong
	}
	spec := w.redrive.Spec
	config := transfer.Config{
		Destination: m.Destination, Behind: m.Behind, Judge: judge, Copier: judge,
		DryRun: w.job.DryRun, Selective: spec.Selector != nil || m.Source.Shared,
		Limited: m.Limited, MaxFailures: 10,
		Apart: transfers.Apart(judge.rules), MovedApart: int(transfers.Number(w.status.UnknownOrigin)),
	}
	if config.DryRun {
		config.MovedApart = 0 // it counts from the start again
	} else {
		config.Moved, config.Unsure = transfers.DoneBefore(&w.status.TransferStatus, w.status.Moved)
	}
	if spec.MaxMessages != nil {
		config.Limit = int(*spec.MaxMessages)
	}
	if spec.MaxFailures != nil {
		config.MaxFailures = int(*spec.MaxFailures)
	}
	counted := newCounts(w.redrive.Namespace, m.ConsumerQueue, config)
	config.Report = counted.add
	return config, nil
}

// Settings are those of a transfer that may change while it runs.
func (w *work) Settings() transfer.Settings {
	return transfer.Settings{
		Rate: transfers.NumberOf(w.redrive.Spec.Rate, 0), MaxDepth: transfers.NumberOf(w.redrive.Spec.MaxDestinationDepth, -1),
	}
}

// Plan sets the numbers of a Redrive that begins.
func (w *work) Plan() {
	if w.status.Moved == nil {
		record(w.status, transfers.Task{})
	}
}

func (w *work) Tally() string { return tally(w.status, "moved") }

// Deed has an Event say on the ConsumerQueue how many of its dead letters were moved.
func (w *work) Deed() (reason, note string) {
	if transfers.Number(w.status.Moved) == 0 || w.job.DryRun {
		return "", ""
	}
	return eventRedriven, w.Tally()
}
