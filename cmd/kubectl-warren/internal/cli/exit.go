package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// The exit codes. Zero is success.
const (
	// exitError: an error, which stderr describes, or wrong usage.
	exitError = 1
	// exitDiffers: plan, diff or contract --check found differences, or a check failed.
	exitDiffers = 2
	// exitFailed: a Redrive or a Purge failed, or waits until a user fixes the cause.
	exitFailed = 3
	// exitCancelled: a Redrive or a Purge was cancelled.
	exitCancelled = 4
	// exitIncomplete: a Redrive or a Purge has finished, but messages failed or may not have been seen.
	exitIncomplete = 5
	// exitStopped: a signal ended the command before the Redrive or Purge ended. Shells use this code for Ctrl-C.
	exitStopped = 130
)

// exitCodes describes the exit codes, for the help of commands.
const exitCodes = `Exit codes:
  0  done
  1  error or wrong usage
  2  plan, diff or contract --check found differences, or a check failed
  3  a Redrive or a Purge failed, or waits until you fix the cause
  4  a Redrive or a Purge was cancelled
  5  a Redrive or a Purge finished, but messages failed or may not have been seen
  130  a signal such as Ctrl-C ended the command before the Redrive or Purge had ended`

// exit is an error with an exit code. Its err is nil if the command has printed the reason already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usageError(format string, values ...any) error {
	return &exit{exitError, fmt.Errorf(format, values...)}
}

var errNameAndAll = usageError("NAME and --all-namespaces are mutually exclusive: remove one of them")

// usage turns an error about the number of arguments into a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError("the usage is `%s` (%w); see %s --help", cmd.UseLine(), err, cmd.CommandPath())
		}
		return nil
	}
}

// onlyCommands checks the arguments of commands that only group subcommands.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		message += fmt.Sprintf("; did you mean %s?", strings.Join(similar, ", "))
	}
	return usageError("%s; see %s --help", message, cmd.CommandPath())
}

// codeOf prints the error of a command, and returns the exit code.
func codeOf(err error, out io.Writer) int {
	if err == nil {
		return 0
	}
	ends, ok := errors.AsType[*exit](err)
	if !ok {
		ends = &exit{exitError, err}
	}
	if ends.err != nil {
		printf(out, "error: %s\n", strings.Join(printable.Lines(explain(ends.err)), "\n"))
	}
	return ends.code
}

// explain returns an error of the API server with advice.
func explain(err error) string {
	if response, ok := errors.AsType[*deadletterclient.Error](err); ok {
		return response.Error()
	}
	switch {
	case meta.IsNoMatchError(err), isUnknownResource(err):
		return "the API server does not know Warren's resources: check that Warren is installed in this cluster, and check --context"
	case apierrors.IsNotFound(err) && slices.Contains([]string{"redrives", "purges"}, resourceOf(err)):
		return err.Error() + ": `kubectl warren dlq jobs` lists the Redrives and Purges of the namespace"
	case apierrors.IsNotFound(err):
		return err.Error() + ": check the name and --namespace. `kubectl warren status -A` lists the ConsumerQueues of all namespaces"
	case utilnet.IsConnectionRefused(err), utilnet.IsTimeout(err):
		return err.Error() + ": check that the API server is running, and check --context"
	case apierrors.IsUnauthorized(err):
		return err.Error() + ": the API server does not accept your credentials. Log in again, or choose another --context"
	case apierrors.IsForbidden(err) && resourceOf(err) == "purges":
		return err.Error() + ": deleting dead letters needs the role admin in the namespace; view is enough to list Purges"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "at the cluster scope"):
		return err.Error() + ": -A needs a cluster role; for one namespace, add --namespace NAME"
	case apierrors.IsForbidden(err):
		return err.Error() + ": ask for a role in the namespace. Reading needs the role view. Moving dead letters, and approving or " +
			"aborting a recreation, need the role edit"
	}
	return err.Error()
}

// resourceOf returns the resource of an API server error, such as purges; empty if unknown.
func resourceOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return ""
	}
	return status.Status().Details.Kind
}

// isUnknownResource reports whether the API server lacks the resource type, rather than the object.
func isUnknownResource(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == "")
}
