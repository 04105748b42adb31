package metrics

// The buckets of histograms, in seconds.
var (
	// requestBuckets go from what a broker next door takes to the longest time-out.
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	// refreshBuckets go further: a refresh is several requests.
	refreshBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	// waitBuckets begin with no wait at all, and end with what thousands of resources may wait for one broker.
	waitBuckets = []float64{0, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	// queueBuckets go from one queue to as many as a fence can have.
	queueBuckets = []float64{1, 2, 5, 10, 20, 50, 100}
)

// BuildInfo tells which operator runs.
var BuildInfo = info("warren_build_info",
	"The build of the operator that runs; the value is always 1.",
	"version", "revision", "go_version")

// Resources.
var (
	Resources = gauge("warren_resources",
		"Resources whose condition has this status for this reason. Each resource counts once for each of its conditions.",
		"kind", "namespace", "condition", "status", "reason")
	ConditionSince = gauge("warren_resource_condition_since_timestamp_seconds",
		"When a condition began that wants attention: Ready that is not True; Drifted, RecreationRequired, Stalled or Suspended "+
			"that is True. A resource that is well has no series, and one that is suspended only that of Suspended.",
		"kind", "namespace", "name", "condition", "status", "reason")
	DeletionTime = gauge("warren_resource_deletion_timestamp_seconds",
		"When the deletion of a resource was requested that still exists. A resource that is not being deleted has no series.",
		"kind", "namespace", "name")
	Advisories = gauge("warren_consumerqueue_advisories",
		"Advisories in status.advisories of a ConsumerQueue that is not suspended, by code. A code without an advisory has no series.",
		"namespace", "name", "code")
	Reconciliations = counter("warren_reconciliations_total",
		"Reconciliations by outcome: done with the reason of the Ready condition; waiting for a slot at the broker (Busy), "+
			"for a refresh of the vhost (RefreshPending) or for the cache (StaleCache); failed with Error.",
		"kind", "result", "reason")
)

// Drift.
var (
	DriftDetected = counter("warren_drift_detected_total",
		"Differences between spec and broker, counted when each is first seen, by kind of the broker object and by what it takes to "+
			"make the change. What is declared for the first time is no difference.",
		"kind", "effect")
	DriftCorrected = counter("warren_drift_corrected_total",
		"Differences that Warren has corrected; the broker confirmed each.",
		"kind", "effect")
)

// Recreations.
var (
	Recreations = counter("warren_recreations_total",
		"Recreations of queues that are over: result is Completed, or BackedOut where the old queue stayed.",
		"result")
	RecreationPhase = gauge("warren_recreation_phase",
		"1 for the phase of the recreation of a ConsumerQueue. A ConsumerQueue without a planned recreation has no series.",
		"namespace", "name", "phase")
	RecreationRemaining = gauge("warren_recreation_remaining",
		"Messages that a recreation under way still has to move in its phase.",
		"namespace", "name")
	RecreationMessages = counter("warren_recreation_messages_moved_total",
		"Messages that recreations have moved: direction is to_hold, into the hold queue, or back, into the queue.",
		"direction")
	RecreationPastBindings = counter("warren_recreation_past_bindings_total",
		"Messages that came to a queue while no exchange led to it.")
	RecreationFence = histogram("warren_recreation_fence_seconds",
		"For how long a fence stood in front of a queue that was recreated: publishers to its name got nacks.",
		refreshBuckets)
	RecreationSwap = histogram("warren_recreation_swap_seconds",
		"For how long a queue that was recreated did not exist, at most.",
		requestBuckets)
)

// Redrives and Purges.
var (
	RedriveMessages = counter("warren_redrive_messages_total",
		"Dead letters of ConsumerQueues that were looked at: kind is Redrive, and result is moved, skipped or failed. A dry run counts "+
			"none.",
		"namespace", "consumerqueue", "kind", "result")
	RedriveInFlight = gauge("warren_redrive_in_flight",
		"Messages that a Redrive has published and the broker has not confirmed yet. A Redrive that moves nothing has no series.",
		"namespace", "name")
	PurgeMessages = counter("warren_purge_messages_total",
		"Dead letters of ConsumerQueues that Purges were about: result is deleted, as far as the broker is known to have done so, or "+
			"skipped. A dry run counts none.",
		"namespace", "consumerqueue", "result")
)

// Brokers.
var (
	BrokerRequests = histogram("warren_broker_request_duration_seconds",
		"Requests to brokers: over AMQP by method, to the management API by endpoint. result is success, not_modified, "+
			"or why the request failed, such as timeout or access_refused.",
		requestBuckets, "protocol", "operation", "result")
	QueueDeletions = histogram("warren_queue_deletion_duration_seconds",
		"Attempts to delete queues that are provably empty; result is as for requests, and not_empty, unproven or pending where the "+
			"queues stay.",
		refreshBuckets, "result")
	ConnectionUp = gauge("warren_connection_up",
		"1 while the broker of a BrokerConnection answers: protocol is amqp or management. A BrokerConnection that is suspended, or "+
			"whose Secret cannot be used, has no series.",
		"namespace", "name", "protocol")
	ConnectionMissing = gauge("warren_connection_missing",
		"ConsumerQueues, without suspended ones, that name a BrokerConnection that does not exist. name is that of the missing "+
			"BrokerConnection. A BrokerConnection that exists has no series.",
		"namespace", "name")
	Reconnects = total("warren_connection_reconnects_total",
		"AMQP connections that were opened again after the first.",
		"namespace", "name")
	OperationLimit = gauge("warren_connection_operation_limit",
		"How many operations, such as declarations, run on the AMQP connection at a time, at most: 16, fewer while the broker is slow "+
			"to answer, and 1 while it blocks the connection.",
		"namespace", "name")
)

// Snapshots of vhosts.
var (
	SnapshotTime = gauge("warren_snapshot_timestamp_seconds",
		"When the reading of the vhost began that the BrokerConnection shows; its age is time() minus this.",
		"namespace", "name")
	SnapshotInterval = gauge("warren_snapshot_refresh_interval_seconds",
		"How often the vhost is to be read: spec.resyncInterval of the BrokerConnection.",
		"namespace", "name")
	SnapshotObjects = gauge("warren_snapshot_objects",
		"Objects of the vhost, whoever made them: kind is Queue, Exchange, Binding or Policy. BrokerConnections that share what they "+
			"read show the same.",
		"namespace", "name", "kind")
	SnapshotBytes = gauge("warren_snapshot_bytes",
		"Memory that the snapshot of the vhost takes, about. BrokerConnections that share what they read show the same.",
		"namespace", "name")
	SnapshotMemory = gauge("warren_snapshot_memory_bytes",
		"Memory that all snapshots take together, about, those included that are being read.")
	SnapshotMemoryLimit = gauge("warren_snapshot_memory_limit_bytes",
		"Memory that all snapshots may take together: six times the flag --max-management-response.")
	Refreshes = histogram("warren_snapshot_refresh_duration_seconds",
		"Refreshes of a vhost, with all requests that they take and with the time for which another connection reads the same vhost. "+
			"result is as for requests.",
		refreshBuckets, "result")
)

// Events of brokers.
var (
	EventsHeard = gauge("warren_connection_events_heard",
		"1 while events of the vhost arrive, which is checked every five minutes. Without them, changes at the broker are found once per "+
			"interval.",
		"namespace", "name")
	Events = counter("warren_broker_events_total",
		"Events about vhosts, by what came of them: own for a change of this operator; applied for a change by others that the snapshot "+
			"took over; refresh for a change that a refresh has to show; ignored for objects that do not matter.",
		"result")
	EventLag = histogram("warren_broker_event_lag_seconds",
		"Time from a change, by the clock of the broker, until its event was handled.",
		requestBuckets)
	RefreshRequests = counter("warren_snapshot_refresh_requests_total",
		"Requests for a refresh of a vhost. One refresh serves all that were made before; see warren_snapshot_refresh_duration_seconds.")
)

// Fences.
var (
	Fences = gauge("warren_fences",
		"Fences that stand: policies that keep a queue from taking messages while Warren shows that the queue is empty. A deletion "+
			"has one for a few seconds. Those that are open, and are kept as the record of a sentinel, do not count.",
		"namespace", "name")
	FenceOldest = gauge("warren_fence_oldest_timestamp_seconds",
		"When the oldest fence that stands was put up, by its name. There is no series while no fence stands.",
		"namespace", "name")
	FenceQueues = sizes("warren_fence_queues",
		"Fences that were put up, by how many queues they stand before. Deletions that wait at the same time share fences.",
		queueBuckets)
	BatchesReleased = counter("warren_deletion_batches_released_total",
		"Batches of deletions that were undone because one of their queues turned out not to be empty, or because they took too long; "+
			"the other queues of the batch are tried again.")
	DeletionsWaiting = gauge("warren_deletions_waiting",
		"Deletions of empty queues that wait for others of the same BrokerConnection before they are begun.",
		"namespace", "name")
)

// Waiting.
var (
	LimiterWaits = histogram("warren_limiter_wait_duration_seconds",
		"How long ConsumerQueues waited for a slot at a broker. Half of the workers may write to one broker or for one namespace at a "+
			"time, and a quarter to brokers that answered slowly.",
		waitBuckets)
	LimiterWaiting = gauge("warren_limiter_waiting",
		"ConsumerQueues that wait for a slot at a broker.")
	RefreshWaits = histogram("warren_refresh_wait_duration_seconds",
		"How long ConsumerQueues waited for a refresh of their vhost that they had asked for.",
		waitBuckets)
	RefreshWaiting = gauge("warren_refresh_waiting",
		"ConsumerQueues that wait for a refresh of their vhost.")
	ClaimWaits = histogram("warren_claim_wait_duration_seconds",
		"How long ConsumerQueues waited to record what they take for their own, while another recorded a claim to the same objects.",
		waitBuckets)
)

// Messages.
var (
	Messages = gauge("warren_consumerqueue_messages",
		"Messages in the queues of a ConsumerQueue, as the broker last counted them: role is main, delayed (in delay tiers) or "+
			"dead_lettered. A dead-letter queue that several ConsumerQueues share counts for each. See --message-counts-interval.",
		"namespace", "name", "role")
	StuckDeadLetters = gauge("warren_consumerqueue_stuck_dead_letters",
		"Dead letters in the queues of a ConsumerQueue that RabbitMQ had not routed at the last two counts. No consumer gets them. "+
			"Queues that delay returned messages are not counted. See --message-counts-interval.",
		"namespace", "name")
)
