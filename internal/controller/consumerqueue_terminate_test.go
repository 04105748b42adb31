package controller

import (
	"testing"
	"time"
)

func TestPatienceWithADeletion(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	equal(t, "deleted while the manager runs", noon.Add(time.Hour), patienceFrom(noon.Add(time.Hour), noon))
	equal(t, "deleted while no manager ran", noon.Add(time.Hour), patienceFrom(noon, noon.Add(time.Hour)))
}
