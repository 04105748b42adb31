package cli

import (
	"fmt"
	"io"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/recreation"
)

// printStatus prints the status of one ConsumerQueue, without its objects.
func printStatus(out io.Writer, cq *v1alpha1.ConsumerQueue, coloured bool) error {
	status, summary := cq.Status, summaryOf(cq)
	rows := newTable(coloured)
	rows.add(cellOf("Queue:"), cellOf(fmt.Sprintf("%s in vhost %q", cq.QueueName(), status.Location.VHost)))
	rows.add(cellOf("Connection:"), cellOf(cq.ConnectionName()))
	rows.add(cellOf("Ready:"), cell{string(summary.Ready) + ", " + summary.Reason, conditionColour[summary.Ready]})
	rows.add(cellOf("Objects:"), cellOf(fmt.Sprintf("%d of %d in sync", summary.InSync, summary.Objects)))
	rows.add(cellOf("Changes:"), cellOf(strconv.Itoa(len(status.Changes)+int(status.ChangesOmitted))))
	if counts := status.Messages; counts != nil {
		rows.add(cellOf("Messages:"), cellOf(fmt.Sprintf("%s in the main queue, %s in delay tiers, %s in the dead-letter queue",
			orDash(counts.Main), orDash(counts.Delayed), orDash(counts.DeadLettered))))
		if stuck := ptr.Deref(counts.Stuck, 0); stuck > 0 {
			rows.add(cellOf("Stuck:"), cell{fmt.Sprintf("%d dead letters that RabbitMQ cannot route", stuck), red})
		}
	}
	if line := recreation.Line(status.Recreation); line != "" {
		rows.add(cellOf("Recreation:"), cellOf(line))
	}
	if err := rows.print(out); err != nil {
		return err
	}
	printf(out, "\n")
	conditions := newTable(coloured, "CONDITION", "STATUS", "REASON", "MESSAGE")
	for _, condition := range status.Conditions {
		style := conditionColour[condition.Status]
		if condition.Type != v1alpha1.ConditionReady {
			style = badIfTrue[condition.Status]
		}
		conditions.add(cellOf(condition.Type), cell{string(condition.Status), style}, cellOf(condition.Reason), cellOf(condition.Message))
	}
	if err := conditions.print(out); err != nil {
		return err
	}
	return printAdvisories(out, status.Advisories, coloured)
}

func printAdvisories(out io.Writer, advisories []v1alpha1.Advisory, coloured bool) error {
	if len(advisories) == 0 {
		return nil
	}
	printf(out, "\n")
	rows := newTable(coloured, "ADVISORY", "NAME", "MESSAGE")
	for _, advisory := range advisories {
		rows.add(cell{string(advisory.Code), yellow}, cellOf(advisory.Name), cellOf(advisory.Message))
	}
	return rows.print(out)
}

func orDash(count *int64) string {
	if count == nil {
		return "-"
	}
	return strconv.FormatInt(*count, 10)
}
