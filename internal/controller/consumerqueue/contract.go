package consumerqueue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/topology"
)

const (
	// contractGrace is how long objects that left the spec stay at the broker after the ConfigMap lost them. A kubelet takes up to
	// 90 s to deliver a ConfigMap to pods, and consumers read the file every 30 s.
	contractGrace = 3 * time.Minute
	// contractRecheck is how often the ConfigMap of a topology in sync is compared. Warren does not watch ConfigMaps, because it has no
	// permission to list them.
	contractRecheck = 10 * time.Minute
	// restoreInterval is how often the ConfigMap is compared while the queue waits to be recreated.
	restoreInterval = time.Minute
)

// errNotWritable: another client created the ConfigMap, or made it immutable.
var errNotWritable = errors.New("not written")

// contract is the contract that spec.contract requests, and its ConfigMap.
type contract struct {
	configMap string
	// data has the keys of a service binding, to which the Secret of the application adds username and password; see
	// https://servicebinding.io/spec/core/1.1.0/#workload-projection.
	data map[string]string
	hash string
}

func (v *vhostScope) contract(configMap string) (contract, error) {
	content, err := topology.ContractOf(v.cq, v.location.VHost, v.version)
	if err != nil {
		return contract{}, err
	}
	content.ConfigMap = v.cq.Namespace + "/" + configMap
	document, err := documentOf(content)
	if err != nil {
		return contract{}, err
	}
	host, port, err := net.SplitHostPort(v.location.Cluster.Endpoint)
	if err != nil {
		return contract{}, fmt.Errorf("split address of the broker: %w", err)
	}
	c := contract{configMap: configMap, data: map[string]string{
		"type": "rabbitmq", "provider": "warren", "host": host, "port": port, "virtual-host": v.location.VHost,
		documentKey: document,
	}}
	whole, err := json.Marshal(c.data)
	if err != nil {
		return contract{}, fmt.Errorf("hash contract: %w", err)
	}
	c.hash = fmt.Sprintf("sha256:%x", sha256.Sum256(whole))
	return c, nil
}

// documentKey is the key of the contract in its ConfigMap.
const documentKey = "contract.json"

func documentOf(content consumercontract.Contract) (string, error) {
	document, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode contract: %w", err)
	}
	return string(document) + "\n", nil
}

// isWritten reports whether a ConfigMap has this contract.
func (c contract) isWritten(status *v1alpha1.ContractStatus) bool {
	return status != nil && status.ConfigMap == c.configMap && status.Hash == c.hash
}

// withWaitingContract returns the summary of a queue that waits to be recreated. Ready is not True until consumers have the contract that
// the spec requests, and they must not follow it at the old queue.
func (v *vhostScope) withWaitingContract(outcome summary) summary {
	if v.cq.Spec.Contract == nil || outcome.inSync() || outcome.ready.Status != metav1.ConditionTrue {
		return outcome
	}
	requested := v.cq.Spec.Contract.ConfigMap
	if c, err := v.contract(requested); err == nil && c.isWritten(v.status.Contract) {
		return outcome
	}
	message := fmt.Sprintf("%s; the contract in ConfigMap %q waits for the recreation", outcome.ready.Message, requested)
	outcome.ready, outcome.progress = conditions.Unknown(outcome.ready.Reason, message), conditions.Reconciling
	return outcome
}

// keepsContract reports whether Warren restores the ConfigMap while the queue waits to be recreated. Ready is True then only if the
// contract that the spec requests was written; see withWaitingContract. A pause stays in the ConfigMap.
func (v *vhostScope) keepsContract(outcome summary) bool {
	isPaused := v.status.Recreation != nil && v.status.Recreation.Pause != nil
	if outcome.ready.Status != metav1.ConditionTrue || v.cq.Spec.Contract == nil || isPaused {
		return false
	}
	return v.restored.Since(v.key(), "") >= restoreInterval // the queue is reconciled every few seconds
}

// syncContract writes the contract if the topology is in sync, so that a consumer that finds a contract also finds all queues. If the spec
// no longer names the ConfigMap, pods may still mount it. So syncContract updates the old ConfigMap a last time, and removes it from the
// status when those pods have read it, or immediately if a user must act.
func (v *vhostScope) syncContract(ctx context.Context, outcome summary) error {
	former := v.status.Contract
	switch {
	case !outcome.inSync() && !v.keepsContract(outcome), v.cq.Spec.Contract == nil && former == nil:
		return nil
	case v.cq.Spec.Contract == nil:
		err := v.writeContract(ctx, former.ConfigMap)
		if needsUserAction(err) || err == nil && v.contractLeft() <= 0 {
			v.status.Contract = nil
			return nil
		}
		return err
	case former != nil && former.ConfigMap != v.cq.Spec.Contract.ConfigMap:
		if err := v.writeContract(ctx, former.ConfigMap); err != nil && !needsUserAction(err) {
			return err
		}
	}
	if err := v.writeContract(ctx, v.cq.Spec.Contract.ConfigMap); err != nil {
		return err
	}
	v.restored.Forget(v.key())
	return nil
}

// writeContract writes the ConfigMap, and records the written contract in the status.
func (v *vhostScope) writeContract(ctx context.Context, configMap string) error {
	c, err := v.contract(configMap)
	if err != nil {
		return err
	}
	asked := v.cq.Spec.Contract != nil && v.cq.Spec.Contract.ConfigMap == configMap
	changed := false
	err = retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		changed, err = v.ensureConfigMap(ctx, c, asked)
		return err
	})
	if err != nil {
		return fmt.Errorf("ConfigMap %q: %w", configMap, err)
	}
	if changed || !c.isWritten(v.status.Contract) {
		v.status.Contract = &v1alpha1.ContractStatus{
			ConfigMap: configMap, Hash: c.hash, LastUpdateTime: metav1.NewTime(time.Now().Truncate(time.Second)),
		}
	}
	return nil
}

// ensureConfigMap patches the ConfigMap if Warren manages it, or creates it. It reports whether consumers get another contract.
func (v *vhostScope) ensureConfigMap(ctx context.Context, c contract, asked bool) (changed bool, err error) {
	found := &corev1.ConfigMap{}
	err = v.live.Get(ctx, client.ObjectKey{Namespace: v.cq.Namespace, Name: c.configMap}, found)
	if apierrors.IsNotFound(err) && !asked {
		return false, nil
	}
	if apierrors.IsNotFound(err) {
		created := &corev1.ConfigMap{Data: c.data}
		created.Namespace, created.Name = v.cq.Namespace, c.configMap
		created.Labels = map[string]string{v1alpha1.ContractLabel: "true"}
		if err := v.own(created); err != nil {
			return false, err
		}
		return true, v.client.Create(ctx, created, statuswriter.FieldOwner)
	}
	if err != nil {
		return false, err
	}
	if _, labelled := found.Labels[v1alpha1.ContractLabel]; !labelled {
		return false, fmt.Errorf("%w, because it lacks the label %s. Delete it, or name another in spec.contract",
			errNotWritable, v1alpha1.ContractLabel)
	}
	wanted := found.DeepCopy()
	wanted.Data = c.data
	if err := v.own(wanted); err != nil {
		return false, err
	}
	if equality.Semantic.DeepEqual(found, wanted) {
		return false, nil
	}
	if ptr.Deref(found.Immutable, false) && !maps.Equal(found.Data, c.data) {
		return false, fmt.Errorf("%w, because it is immutable. Delete it, or name another in spec.contract", errNotWritable)
	}
	patch := client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})
	return !maps.Equal(found.Data, c.data), v.client.Patch(ctx, wanted, patch, statuswriter.FieldOwner)
}

// own makes the ConsumerQueue the owner of the ConfigMap. It passes false to WithBlockOwnerDeletion, because true can require permission
// to update consumerqueues/finalizers.
func (v *vhostScope) own(configMap *corev1.ConfigMap) error {
	err := controllerutil.SetControllerReference(v.cq, configMap, v.client.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	if owned, another := errors.AsType[*controllerutil.AlreadyOwnedError](err); another {
		return fmt.Errorf("%w, because it belongs to %s %q. Name another in spec.contract",
			errNotWritable, owned.Owner.Kind, owned.Owner.Name)
	}
	return err
}

// withContract returns the summary of a topology in sync after an attempt to write its contract. A conflict does not change the summary,
// because the next attempt writes the contract.
func (v summary) withContract(err error) summary {
	if err == nil || apierrors.IsConflict(err) {
		return v
	}
	message := conditions.ErrorSummary(err)
	if lacksPermission(err) {
		message += ". To grant the permission, install config/contract or set consumerContracts.enabled in the chart"
	}
	v.ready, v.progress = conditions.False(v1alpha1.ReasonContractNotWritten, message), conditions.Reconciling
	if needsUserAction(err) {
		v.progress = conditions.Stalled
	}
	return v
}

// lacksPermission distinguishes a refusal by RBAC or an admission policy from one by a quota or a terminating namespace.
func lacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
		!strings.Contains(err.Error(), "exceeded quota")
}

// needsUserAction reports whether the ConfigMap cannot be written until a user changes something.
func needsUserAction(err error) bool {
	return errors.Is(err, errNotWritable) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// retryableWrite returns the error if a retry may help. Otherwise it returns nil, and the next resync tries again.
func retryableWrite(err error) error {
	if err == nil || needsUserAction(err) {
		return nil
	}
	return shortError{err}
}

// contractLeft returns for how much longer consumers may lack the last contract. It counts from when this manager first saw that
// contract in the status, because lastUpdateTime comes from the clock of the manager that wrote it.
func (s *scope) contractLeft() time.Duration {
	written := s.status.Contract
	if written == nil {
		return 0
	}
	state := fmt.Sprint(written.ConfigMap, written.Hash, written.LastUpdateTime.Unix())
	return contractGrace - s.contracts.Since(s.key(), state)
}

// contractPending returns why consumers may still publish to objects that left the spec; empty if they do not. It reads the
// ConfigMap: the status may describe an earlier contract, or a user may have restored an older ConfigMap.
func (v *vhostScope) contractPending(ctx context.Context) string {
	written := v.status.Contract
	configMap := ""
	switch {
	case v.cq.Spec.Contract != nil:
		configMap = v.cq.Spec.Contract.ConfigMap
	case written != nil:
		configMap = written.ConfigMap
	default:
		return ""
	}
	c, err := v.contract(configMap)
	if err == nil && c.isWritten(written) && v.contractLeft() <= 0 {
		found := &corev1.ConfigMap{}
		err = v.live.Get(ctx, client.ObjectKey{Namespace: v.cq.Namespace, Name: configMap}, found)
		isGone := v.cq.Spec.Contract == nil && apierrors.IsNotFound(err)
		if isGone || err == nil && maps.Equal(found.Data, c.data) {
			return ""
		}
	}
	return fmt.Sprintf("consumers may still publish to it. Warren removes it %s after ConfigMap %q stops naming it",
		consumercontract.Duration(contractGrace), configMap)
}

// contractRequeue returns when a topology is compared again because of its contract: when consumers have read the contract, or to detect an
// edited ConfigMap. It returns zero without a contract.
func (s *scope) contractRequeue() time.Duration {
	switch left := s.contractLeft(); {
	case s.cq.Spec.Contract == nil && s.status.Contract == nil:
		return 0
	case left > 0:
		return min(left, contractRecheck)
	}
	return contractRecheck
}
