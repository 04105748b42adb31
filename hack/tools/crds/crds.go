// Package crds pins the modules whose CRDs test/deployment installs.
package crds

import (
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	_ "github.com/prometheus-operator/prometheus-operator/example"
)
