package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// selectFlags are the flags that become the select of a Redrive or a Purge.
type selectFlags struct {
	letterFlags

	headers               []string
	diedAfter, diedBefore string
}

func (f *selectFlags) add(cmd *cobra.Command) {
	f.letterFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.headers, "header", nil,
		"only messages with this header: NAME, !NAME, NAME=VALUE, NAME=VALUE,VALUE or NAME!=VALUE; all that are given must hold")
	flags.StringVar(&f.diedAfter, "died-after", "",
		"only messages that died later: a time such as 2026-01-31T08:00:00Z, or 2h for two hours ago")
	flags.StringVar(&f.diedBefore, "died-before", "", "only messages that died earlier")
}

// selection is nil where all dead letters are meant.
func (f *selectFlags) selection(now time.Time) (*v1alpha1.DeadLetterSelection, error) {
	selection := &v1alpha1.DeadLetterSelection{IDs: f.ids, Where: f.where}
	if f.unknownOrigin {
		selection.UnknownOrigin = new(true)
	}
	reasons, err := f.reasons()
	if err != nil {
		return nil, err
	}
	for _, reason := range reasons {
		selection.Reasons = append(selection.Reasons, v1alpha1.DeadLetterReason(reason))
	}
	for _, given := range f.headers {
		requirement, err := headerOf(given)
		if err != nil {
			return nil, err
		}
		selection.Headers = append(selection.Headers, requirement)
	}
	if selection.DiedAfter, err = timeOf("--died-after", f.diedAfter, now); err != nil {
		return nil, err
	}
	if selection.DiedBefore, err = timeOf("--died-before", f.diedBefore, now); err != nil {
		return nil, err
	}
	if f.isEmptySelection() {
		return nil, nil
	}
	return selection, nil
}

func (f *selectFlags) isEmptySelection() bool {
	return len(f.ids)+len(f.diedReasons)+len(f.headers) == 0 && f.where == "" && !f.unknownOrigin && f.diedAfter == "" && f.diedBefore == ""
}

// headerOf reads a value of --header.
func headerOf(text string) (v1alpha1.HeaderRequirement, error) {
	requirement := v1alpha1.HeaderRequirement{}
	name, values, compared := strings.Cut(text, "=")
	switch {
	case compared && strings.HasSuffix(name, "!"):
		requirement.Name, requirement.Operator = strings.TrimSuffix(name, "!"), "NotIn"
	case compared:
		requirement.Name, requirement.Operator = name, "In"
	case strings.HasPrefix(text, "!"):
		requirement.Name, requirement.Operator = text[1:], "DoesNotExist"
	default:
		requirement.Name, requirement.Operator = text, "Exists"
	}
	if requirement.Name == "" {
		return requirement, usageError("--header is %q: want NAME, !NAME, NAME=VALUE or NAME!=VALUE", text)
	}
	if compared {
		requirement.Values = strings.Split(values, ",")
	}
	return requirement, nil
}

// timeOf reads a time, or a duration before now.
func timeOf(flag, text string, now time.Time) (*metav1.Time, error) {
	if text == "" {
		return nil, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return new(metav1.NewTime(now.Add(-ago).Truncate(time.Second))), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, &exit{exitError, fmt.Errorf("%s is %q: want a time such as 2026-01-31T08:00:00Z, or 2h for two hours ago", flag, text)}
	}
	return new(metav1.NewTime(at)), nil
}

// rateOf reads a value of --rate; nil where none is given.
func rateOf(text string) (*intstr.IntOrString, error) {
	if text == "" {
		return nil, nil
	}
	if strings.EqualFold(text, v1alpha1.Unlimited) {
		return new(intstr.FromString(v1alpha1.Unlimited)), nil
	}
	rate, err := strconv.ParseInt(text, 10, 32)
	if err != nil || rate < 1 {
		return nil, usageError("--rate is %q: want a number of messages a second, or unlimited", text)
	}
	return new(intstr.FromInt32(int32(rate))), nil
}
