package cli

import (
	"context"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
)

// selectorFlags are the flags that select messages to browse, move or delete.
type selectorFlags struct {
	ids, diedReasons, headers []string
	diedAfter, diedBefore     string
	expression                string
	unknownOrigin             bool
}

func (f *selectorFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ids, "id", nil, "only messages with these IDs")
	flags.StringSliceVar(&f.diedReasons, "died-reason", nil,
		"only messages with these reasons: "+strings.Join(parameters.Reasons, ", "))
	flags.StringArrayVar(&f.headers, "header", nil, "only messages with this header: NAME, !NAME, NAME=VALUE or NAME!=VALUE; several "+
		"NAME=VALUE of one header match any of the values; otherwise all must match")
	flags.StringVar(&f.diedAfter, "died-after", "",
		"only messages that died after this time, such as 2026-01-31T08:00:00Z, or an age such as 2h or 30d")
	flags.StringVar(&f.diedBefore, "died-before", "", "only messages that died before this time, in the same form")
	flags.StringVar(&f.expression, "expression", "",
		`only messages for which this CEL expression holds, such as 'body.order.country == "DE"'`)
	flags.BoolVar(&f.unknownOrigin, "unknown-origin", false,
		"also messages of unknown origin in a queue that several ConsumerQueues share; such messages may belong to other ConsumerQueues")
	_ = cmd.RegisterFlagCompletionFunc("died-reason", cobra.FixedCompletions(parameters.Reasons, cobra.ShellCompDirectiveNoFileComp))
}

// selection returns the selector; nil if all dead letters are selected.
func (f *selectorFlags) selection(now time.Time) (*v1alpha1.DeadLetterSelector, error) {
	selection := v1alpha1.DeadLetterSelector{IDs: f.ids, Expression: f.expression, UnknownOrigin: f.unknownOrigin}
	for _, given := range f.diedReasons {
		at := slices.IndexFunc(parameters.Reasons, func(reason string) bool { return strings.EqualFold(reason, given) })
		if at < 0 {
			return nil, usageError("--died-reason is %q: must be one of %s", given, strings.Join(parameters.Reasons, ", "))
		}
		selection.Reasons = append(selection.Reasons, v1alpha1.DeadLetterReason(parameters.Reasons[at]))
	}
	var err error
	if selection.Headers, err = parameters.Headers(f.headers); err != nil {
		return nil, usageError("--header: %w", err)
	}
	if selection.DiedAfter, err = timeOf("--died-after", f.diedAfter, now); err != nil {
		return nil, err
	}
	if selection.DiedBefore, err = timeOf("--died-before", f.diedBefore, now); err != nil {
		return nil, err
	}
	if reflect.ValueOf(selection).IsZero() {
		return nil, nil
	}
	return &selection, nil
}

// query returns the selector as parameters of the dead-letter API.
func (f *selectorFlags) query(now time.Time) (url.Values, error) {
	selector, err := f.selection(now)
	return parameters.Of(selector), err
}

// timeOf parses a time, or a duration before now.
func timeOf(flag, text string, now time.Time) (*metav1.Time, error) {
	if text == "" {
		return nil, nil
	}
	if ago, err := durationOf(text); err == nil && ago >= 0 {
		return new(metav1.NewTime(now.Add(-ago).Truncate(time.Second))), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, usageError("%s is %q: must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d", flag, text)
	}
	return new(metav1.NewTime(at)), nil
}

// durationOf parses a duration of Go, which may begin with days.
func durationOf(text string) (time.Duration, error) {
	days, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	count, err := strconv.ParseUint(days, 10, 16) // 65535 days fit in a duration
	if err != nil || rest == "" {
		return time.Duration(count) * 24 * time.Hour, err
	}
	within, err := time.ParseDuration(rest)
	return time.Duration(count)*24*time.Hour + within, err
}

// numbers adds the parameters whose flags are given. The API validates them.
func numbers(query url.Values, cmd *cobra.Command, parameterOf map[string]string) {
	for flag, parameter := range parameterOf {
		if given := cmd.Flags().Lookup(flag); given.Changed {
			query.Set(parameter, given.Value.String())
		}
	}
}

// apiFlags configure access to the dead-letter API.
type apiFlags struct {
	serviceAccount, warrenNamespace, warrenService string
}

func (f *apiFlags) add(cmd *cobra.Command, c *cluster) {
	flags := cmd.Flags()
	flags.StringVar(&f.serviceAccount, "service-account", "warren-dead-letters",
		"the ServiceAccount of the namespace that authenticates to the dead-letter API")
	_ = cmd.RegisterFlagCompletionFunc("service-account", c.completeListed(&corev1.ServiceAccountList{}, true))
	flags.StringVar(&f.warrenNamespace, "warren-namespace", "warren-system", "the namespace of Warren")
	flags.StringVar(&f.warrenService, "warren-service", "warren-dead-letters", "the Service of the dead-letter API in that namespace")
}

// deadLetters connects to the dead-letter API, and returns the namespace of the queues. It calls say with the reason if it must
// wait.
func (c *cluster) deadLetters(ctx context.Context, flags apiFlags, say func(string)) (*deadletterclient.Client, string, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, "", err
	}
	connected, err := c.deadLettersOf(ctx, namespace, flags, say)
	return connected, namespace, err
}

// deadLettersOf connects to the dead-letter API for the queues of a namespace.
func (c *cluster) deadLettersOf(
	ctx context.Context, namespace string, flags apiFlags, say func(string),
) (*deadletterclient.Client, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return deadletterclient.Connect(ctx, config, deadletterclient.Options{
		Namespace: namespace, ServiceAccount: flags.serviceAccount,
		WarrenNamespace: flags.warrenNamespace, Service: flags.warrenService, Say: say,
	})
}
