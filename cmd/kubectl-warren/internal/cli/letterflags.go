package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/letters"
)

// letterFlags are the flags that select messages, to look at as to move.
type letterFlags struct {
	ids, diedReasons []string
	where            string
	unknownOrigin    bool
}

func (f *letterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ids, "id", nil, "only the messages with these fingerprints")
	flags.StringSliceVar(&f.diedReasons, "died-reason", nil, "only messages that died of this: "+strings.Join(letters.Reasons, ", "))
	flags.StringVar(&f.where, "where", "", `only messages for which this CEL expression holds, such as 'body.order.country == "DE"'`)
	flags.BoolVar(&f.unknownOrigin, "unknown-origin", false,
		"of a queue that several ConsumerQueues share, also the messages that do not tell whose they are: they may be those of others")
	_ = cmd.RegisterFlagCompletionFunc("died-reason", cobra.FixedCompletions(letters.Reasons, cobra.ShellCompDirectiveNoFileComp))
}

// reasons are those of --died-reason, as the API writes them.
func (f *letterFlags) reasons() ([]string, error) {
	var reasons []string
	for _, given := range f.diedReasons {
		at := slices.IndexFunc(letters.Reasons, func(reason string) bool { return strings.EqualFold(reason, given) })
		if at < 0 {
			return nil, usageError("--died-reason is %q: want one of %s", given, strings.Join(letters.Reasons, ", "))
		}
		reasons = append(reasons, letters.Reasons[at])
	}
	return reasons, nil
}

// query is the parameters of the dead-letter API that select messages.
func (f *letterFlags) query() (url.Values, error) {
	reasons, err := f.reasons()
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for parameter, values := range map[string][]string{"id": f.ids, "reason": reasons} {
		if len(values) > 0 {
			query[parameter] = values
		}
	}
	if f.where != "" {
		query.Set("where", f.where)
	}
	if f.unknownOrigin {
		query.Set("unknownOrigin", "true")
	}
	return query, nil
}

// numbers adds the parameters whose flags were given. What they may be, the API says.
func numbers(query url.Values, cmd *cobra.Command, parameterOf map[string]string) {
	for flag, parameter := range parameterOf {
		if given := cmd.Flags().Lookup(flag); given.Changed {
			query.Set(parameter, given.Value.String())
		}
	}
}

// doorFlags say how the dead-letter API is reached.
type doorFlags struct {
	serviceAccount, warrenNamespace, warrenService string
}

func (f *doorFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.serviceAccount, "service-account", "warren-dead-letters",
		"the ServiceAccount of the namespace by whose tokens the dead-letter API knows you")
	flags.StringVar(&f.warrenNamespace, "warren-namespace", "warren-system", "the namespace that Warren is installed in")
	flags.StringVar(&f.warrenService, "warren-service", "warren-dead-letters", "the Service of the dead-letter API there")
}

// deadLetters connects to the dead-letter API, and returns the namespace of the queues. Say is told why an answer has to be waited for.
func (c *cluster) deadLetters(ctx context.Context, flags doorFlags, say func(string)) (*deadletterclient.Client, string, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, "", err
	}
	connected, err := c.deadLettersOf(ctx, namespace, flags, say)
	return connected, namespace, err
}

// deadLettersOf connects to the dead-letter API for the queues of a namespace.
func (c *cluster) deadLettersOf(
	ctx context.Context, namespace string, flags doorFlags, say func(string),
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
