package metrics

// The buckets of histograms, in seconds.
var (
	// requestBuckets range from the latency of a nearby broker to the longest timeout.
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	// refreshBuckets are longer, because a refresh consists of several requests.
	refreshBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	// waitBuckets range from no wait to the wait of thousands of resources for one broker.
	waitBuckets = []float64{0, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	// queueBuckets range from one queue to the maximum of a fence.
	queueBuckets = []float64{1, 2, 5, 10, 20, 50, 100}
)

// BuildInfo identifies the build of the manager.
var BuildInfo = info("warren_build_info",
	"The build of the running manager; the value is always 1.",
	"version", "revision", "go_version")

// Resources.
var (
	Resources = gauge("warren_resources",
		"Resources whose condition has this status for this reason. Each resource counts once for each of its conditions.",
		"kind", "namespace", "condition", "status", "reason")
	ConditionSince = gauge("warren_resource_condition_since_timestamp_seconds",
		"Start time of a condition that needs attention: Ready is not True, or Drifted, RecreationRequired, Stalled or Suspended "+
			"is True. No series while Ready is True and the others are not. A suspended resource has only the series of Suspended.",
		"kind", "namespace", "name", "condition", "status", "reason")
	DeletionTime = gauge("warren_resource_deletion_timestamp_seconds",
		"Time of the deletion request for a resource that still exists. No series while the resource is not being deleted.",
		"kind", "namespace", "name")
	Advisories = gauge("warren_consumerqueue_advisories",
		"Advisories of a ConsumerQueue that is not suspended, by code. No series for a code without an advisory.",
		"namespace", "name", "code")
	Reconciliations = counter("warren_reconciliations_total",
		"Reconciliations by outcome. result is done (with the reason of the Ready condition), waiting or failed (Error). A reconciliation "+
			"waits for a slot at the broker (Busy), a refresh of the vhost (RefreshPending) or the cache (StaleCache).",
		"kind", "result", "reason")
)

// Drift.
var (
	DriftDetected = counter("warren_drift_detected_total",
		"Differences between spec and broker, counted when first seen, by the kind of the broker object and by the action that removes "+
			"the difference (effect). Objects that are declared for the first time do not count.",
		"kind", "effect")
	DriftCorrected = counter("warren_drift_corrected_total",
		"Differences that Warren has corrected and the broker has confirmed.",
		"kind", "effect")
)

// Recreations.
var (
	Recreations = counter("warren_recreations_total",
		"Recreations of queues that have ended: result is Completed, or BackedOut if Warren restored the old queue.",
		"result")
	RecreationPhase = gauge("warren_recreation_phase",
		"1 for the phase of the recreation of a ConsumerQueue. A ConsumerQueue without a planned recreation has no series.",
		"namespace", "name", "phase")
	RecreationRemaining = gauge("warren_recreation_remaining",
		"Messages that a recreation still has to move in its phase; 0 while it waits.",
		"namespace", "name")
	RecreationMessages = counter("warren_recreation_messages_moved_total",
		"Messages that recreations have moved. direction is to_backlog for moves to the backlog queue, and back for moves to the queue.",
		"direction")
	RecreationPastBindings = counter("warren_recreation_past_bindings_total",
		"Messages that clients published to a queue by its name while Warren recreated it.")
	RecreationFence = histogram("warren_recreation_fence_seconds",
		"How long a fence refused messages to a queue during its recreation. Clients that published to the queue by its name got nacks.",
		refreshBuckets)
	RecreationSwap = histogram("warren_recreation_swap_seconds",
		"Upper bound of the time for which a queue did not exist during its recreation.",
		requestBuckets)
)

// Redrives and Purges.
var (
	RedriveMessages = counter("warren_redrive_messages_total",
		"Dead letters that Redrives have examined: kind is Redrive, and result is moved, skipped or failed. Dry runs are not "+
			"counted.",
		"namespace", "consumerqueue", "kind", "result")
	RedriveInFlight = gauge("warren_redrive_in_flight",
		"Messages that a Redrive has published and the broker has not confirmed yet. No series while the Redrive moves nothing.",
		"namespace", "name")
	PurgeMessages = counter("warren_purge_messages_total",
		"Dead letters that Purges have examined: result is deleted, if the broker has confirmed the deletion, or skipped. Dry runs are "+
			"not counted.",
		"namespace", "consumerqueue", "result")
)

// Brokers.
var (
	BrokerRequests = histogram("warren_broker_request_duration_seconds",
		"Duration of requests to brokers: over AMQP by method, to the management API by endpoint. result is success, not_modified, "+
			"or the error, such as timeout or access_refused.",
		requestBuckets, "protocol", "operation", "result")
	QueueDeletions = histogram("warren_queue_deletion_duration_seconds",
		"Duration of attempts to delete empty queues. result is as for requests, or not_empty, unproven or pending if the queues "+
			"were not deleted.",
		refreshBuckets, "result")
	ConnectionUp = gauge("warren_connection_up",
		"1 while the broker of a BrokerConnection answers: protocol is amqp or management. No series while the BrokerConnection is "+
			"suspended, or its Secret is invalid.",
		"namespace", "name", "protocol")
	ConnectionMissing = gauge("warren_connection_missing",
		"ConsumerQueues, except suspended ones, whose BrokerConnection does not exist. name is that of the missing "+
			"BrokerConnection. No series for an existing BrokerConnection.",
		"namespace", "name")
	Reconnects = total("warren_connection_reconnects_total",
		"AMQP connections that were opened after the first one.",
		"namespace", "name")
	OperationLimit = gauge("warren_connection_operation_limit",
		"Maximum of concurrent operations, such as declarations, on the AMQP connection: 16, fewer while the broker answers slowly, "+
			"and 1 while it blocks the connection.",
		"namespace", "name")
)

// Snapshots of vhosts.
var (
	SnapshotTime = gauge("warren_snapshot_timestamp_seconds",
		"Start time of the refresh that produced the current snapshot of the vhost. The snapshot's age is time() minus this.",
		"namespace", "name")
	SnapshotInterval = gauge("warren_snapshot_refresh_interval_seconds",
		"Interval between refreshes of the vhost: spec.resyncInterval of the BrokerConnection.",
		"namespace", "name")
	SnapshotObjects = gauge("warren_snapshot_objects",
		"Objects of the vhost, of all clients: kind is Queue, Exchange, Binding or Policy. BrokerConnections with a shared snapshot "+
			"report the same number.",
		"namespace", "name", "kind")
	SnapshotBytes = gauge("warren_snapshot_bytes",
		"Approximate memory of the vhost's snapshot. BrokerConnections with a shared snapshot report the same number.",
		"namespace", "name")
	SnapshotMemory = gauge("warren_snapshot_memory_bytes",
		"Approximate memory of all snapshots together, including snapshots that are being read.")
	SnapshotMemoryLimit = gauge("warren_snapshot_memory_limit_bytes",
		"Limit of the memory of all snapshots together: six times the flag --max-management-response.")
	Refreshes = histogram("warren_snapshot_refresh_duration_seconds",
		"Duration of refreshes of a vhost, with all their requests and the wait for another connection that reads the same vhost. "+
			"result is as for requests.",
		refreshBuckets, "result")
)

// Events of brokers.
var (
	EventsArriving = gauge("warren_connection_events_arriving",
		"1 while events of the vhost arrive, which Warren checks every five minutes. Without events, Warren finds changes at the broker "+
			"once per resync interval.",
		"namespace", "name")
	Events = counter("warren_broker_events_total",
		"Events about vhosts by outcome. result is own for a change by this manager, or applied for a change by others that updated the "+
			"snapshot. It is refresh for a change that needs a refresh, and ignored for irrelevant objects.",
		"result")
	EventLag = histogram("warren_broker_event_lag_seconds",
		"Time from a change, by the clock of the broker, until its event was handled.",
		requestBuckets)
	RefreshRequests = counter("warren_snapshot_refresh_requests_total",
		"Requests for a refresh of a vhost. One refresh serves all earlier requests; see warren_snapshot_refresh_duration_seconds.")
)

// Fences.
var (
	Fences = gauge("warren_fences",
		"Closed fences: policies that make a queue refuse messages while Warren proves that the queue is empty. A deletion "+
			"keeps its fence closed for a few seconds. Open fences, which record a sentinel, do not count.",
		"namespace", "name")
	FenceOldest = gauge("warren_fence_oldest_timestamp_seconds",
		"Creation time of the oldest closed fence, from its name. No series while there is none.",
		"namespace", "name")
	FenceQueues = sizes("warren_fence_queues",
		"Created fences by their number of queues. Deletions that wait at the same time share fences.",
		queueBuckets)
	BatchesReleased = counter("warren_deletion_batches_released_total",
		"Batches of deletions that were undone because one of their queues was not empty, or because they took too long. Warren "+
			"retries the other queues of the batch.")
	DeletionsWaiting = gauge("warren_deletions_waiting",
		"Deletions of empty queues that wait for other deletions of the same BrokerConnection.",
		"namespace", "name")
)

// Waiting.
var (
	LimiterWaits = histogram("warren_limiter_wait_duration_seconds",
		"How long ConsumerQueues, Redrives and Purges waited for a slot at a broker. Each kind has its own slots. At most half of them "+
			"are for one broker or one namespace, and at most a quarter for slow brokers.",
		waitBuckets)
	LimiterWaiting = gauge("warren_limiter_waiting",
		"ConsumerQueues that wait for a slot at a broker.")
	RefreshWaits = histogram("warren_refresh_wait_duration_seconds",
		"How long ConsumerQueues waited for a requested refresh of their vhost.",
		waitBuckets)
	RefreshWaiting = gauge("warren_refresh_waiting",
		"ConsumerQueues that wait for a refresh of their vhost.")
	ClaimWaits = histogram("warren_claim_wait_duration_seconds",
		"How long ConsumerQueues waited to record their claims, while another one recorded a claim to the same objects.",
		waitBuckets)
)

// Messages.
var (
	Messages = gauge("warren_consumerqueue_messages",
		"Messages in the queues of a ConsumerQueue at the last count: role is main, delayed (in delay tiers) or "+
			"dead_lettered. A shared dead-letter queue counts for each of its ConsumerQueues. See --message-counts-interval.",
		"namespace", "name", "role")
	StuckDeadLetters = gauge("warren_consumerqueue_stuck_dead_letters",
		"Dead letters in the queues of a ConsumerQueue that RabbitMQ had not routed at the last two counts. No consumer receives them. "+
			"Queues that delay returned messages, by an argument or a policy, are left out. See --message-counts-interval.",
		"namespace", "name")
)
