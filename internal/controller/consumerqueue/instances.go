package consumerqueue

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
)

// otherInstance returns why no object may be removed now; empty if objects may be removed.
func (s *vhostScope) otherInstance() string {
	if s.connection == nil {
		return ""
	}
	owners := s.connection.Health().OtherInstances
	if owners == "" {
		return ""
	}
	return brokers.OtherInstance(owners)
}

// sharedVHost returns an advisory if another instance works on the vhost.
func (s *vhostScope) sharedVHost() []v1alpha1.Advisory {
	why := s.otherInstance()
	if why == "" {
		return nil
	}
	return []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisorySharedVHost, Name: s.location.VHost,
		Message: why + ". Until that instance stops, this one removes nothing, because the other instance may need the objects. " +
			"Give each instance its own vhost",
	}}
}
