// Package specs generates ConsumerQueues that the API accepts, for tests of properties that hold for all of them.
package specs
