package check

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	permissions := func(view, edit, admin bool) []Permission {
		return []Permission{
			{Role: "view", Verb: "list", Resource: "consumerqueues", Allowed: view},
			{Role: "view", Verb: "list", Resource: "purges", Allowed: true},
			{Role: "edit", Verb: "create", Resource: "redrives", Allowed: edit},
			{Role: "edit", Verb: "get", Resource: "deadletterqueues", Subresource: "messages", Allowed: edit},
			{Role: "admin", Verb: "create", Resource: "purges", Allowed: admin},
		}
	}
	view := Result{OK, "your role", "Namespace shop", "view: you may see Warren's resources", ""}
	noAdmin := Result{
		Warning, "your role", "Namespace shop", "admin: you may not create purges",
		`To delete dead letters, ask for the role admin in namespace "shop".`,
	}
	for name, test := range map[string]struct {
		namespace   string
		permissions []Permission
		err         error
		want        []Result
	}{
		"admin": {"shop", permissions(true, true, true), nil, []Result{
			view,
			{OK, "your role", "Namespace shop", "edit: you may create ConsumerQueues and move dead letters", ""},
			{OK, "your role", "Namespace shop", "admin: you may delete dead letters", ""},
		}},
		"view": {"shop", permissions(true, false, false), nil, []Result{
			view, {
				Warning, "your role", "Namespace shop", "edit: you may not create redrives, get deadletterqueues/messages",
				`To create ConsumerQueues and move dead letters, ask for the role edit in namespace "shop".`,
			}, noAdmin,
		}},
		"none": {"", permissions(false, true, true), nil, []Result{
			{
				Failed, "your role", "all namespaces", "view: you may not list consumerqueues",
				"To see Warren's resources, ask for the role view in the whole cluster.",
			},
			{OK, "your role", "all namespaces", "edit: you may create ConsumerQueues and move dead letters", ""},
			{OK, "your role", "all namespaces", "admin: you may delete dead letters", ""},
		}},
		"an API server that does not answer": {"shop", nil, errors.New("timeout"), []Result{
			{Failed, "your role", "Namespace shop", "timeout", "Check that the API server works, and run the command again."},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, Roles(test.namespace, test.permissions, test.err)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

// answer is an error response.
type answer struct {
	error

	code int
}

func (a answer) Code() int { return a.code }

func TestDeadLetterAPI(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused\nAsk for a role.\n  kubectl create rolebinding")
	const readTheLog = "Check that a manager holds the Lease of the leader election, and read its log."
	for name, test := range map[string]struct {
		asked           DeadLetters
		state           State
		message, remedy string
	}{
		"it answers":        {DeadLetters{Connected: true}, OK, "it lists the dead-letter queues of the namespace", ""},
		"no ServiceAccount": {DeadLetters{Err: answer{refused, http.StatusNotFound}}, Warning, "refused", "Ask for a role.\n  kubectl create rolebinding"},
		"no role":           {DeadLetters{Err: answer{refused, http.StatusForbidden}, Connected: true}, Warning, "refused", "Ask for a role.\n  kubectl create rolebinding"},
		"an installation without the API": {
			DeadLetters{Err: answer{errors.New("services not found\ncheck --warren-service"), http.StatusNotFound}, Connected: true},
			Warning, "services not found", "check --warren-service",
		},
		"no leader, or an installation without the API on a newer API server": {
			DeadLetters{Err: answer{errors.New("no endpoints\nthe manager is not running"), http.StatusServiceUnavailable}, Connected: true},
			Warning, "no endpoints", "the manager is not running",
		},
		"a manager that fails":         {DeadLetters{Err: answer{errors.New("bad gateway"), http.StatusBadGateway}, Connected: true}, Failed, "bad gateway", readTheLog},
		"an API server without answer": {DeadLetters{Err: errors.New("timeout")}, Failed, "timeout", readTheLog},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.asked.Namespace = "shop"
			want := Result{test.state, "dead-letter API", "Namespace shop", test.message, test.remedy}
			if difference := cmp.Diff(want, DeadLetterAPI(test.asked)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
