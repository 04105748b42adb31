package check

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Permission is an action, and whether the API server allows it to the user.
type Permission struct {
	// Role is the least built-in role with this permission: view, edit or admin.
	Role string
	// Subresource is empty for the resource itself.
	Verb, Group, Resource, Subresource string

	Allowed bool
}

// roles are the built-in roles, with their purpose for the resources of Warren.
var roles = []struct{ name, purpose string }{
	{"view", "see Warren's resources"},
	{"edit", "create ConsumerQueues and move dead letters"},
	{"admin", "delete dead letters"},
}

// Roles checks what the user may do in a namespace, or in all namespaces if the name is empty.
func Roles(namespace string, permissions []Permission, err error) []Result {
	const check = "your role"
	object, where := "Namespace "+namespace, fmt.Sprintf("in namespace %q", namespace)
	if namespace == "" {
		object, where = "all namespaces", "in the whole cluster"
	}
	if err != nil {
		return []Result{Unread(check, object, err)}
	}
	results := make([]Result, 0, len(roles))
	for _, role := range roles {
		result := Result{State: OK, Check: check, Object: object, Message: fmt.Sprintf("%s: you may %s", role.name, role.purpose)}
		if denied := deniedFor(role.name, permissions); len(denied) > 0 {
			result.State = Warning
			if role.name == "view" {
				result.State = Failed
			}
			result.Message = fmt.Sprintf("%s: you may not %s", role.name, strings.Join(denied, ", "))
			result.Remedy = fmt.Sprintf("To %s, ask for the role %s %s.", role.purpose, role.name, where)
		}
		results = append(results, result)
	}
	return results
}

func deniedFor(role string, permissions []Permission) []string {
	var denied []string
	for _, p := range permissions {
		if p.Role == role && !p.Allowed {
			denied = append(denied, p.Verb+" "+strings.TrimSuffix(p.Resource+"/"+p.Subresource, "/"))
		}
	}
	return denied
}

// DeadLetters is the result of listing dead-letter queues through the dead-letter API.
type DeadLetters struct {
	Namespace string
	// Err is why the list failed; nil if it succeeded.
	Err error
	// Connected is true if the plugin had credentials for the API.
	Connected bool
}

// response is an error response of the API server or of the dead-letter API.
type response interface {
	error
	Code() int
}

// DeadLetterAPI checks that the dead-letter API can be reached.
func DeadLetterAPI(asked DeadLetters) Result {
	result := Result{State: OK, Check: "dead-letter API", Object: "Namespace " + asked.Namespace}
	if asked.Err == nil {
		result.Message = "it lists the dead-letter queues of the namespace"
		return result
	}
	result.State = Failed
	if answer, isAnswer := errors.AsType[response](asked.Err); isAnswer {
		// The user lacks a ServiceAccount or a role, or Warren is installed without the API: newer API servers answer 503 about a
		// Service that does not exist.
		optional := []int{http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable}
		if !asked.Connected || slices.Contains(optional, answer.Code()) {
			result.State = Warning
		}
	}
	var found bool
	result.Message, result.Remedy, found = strings.Cut(asked.Err.Error(), "\n")
	if !found {
		result.Remedy = "Check that a manager holds the Lease of the leader election, and read its log."
	}
	return result
}
