#!/usr/bin/env bash
# Copies files of config/ into the Helm chart, and generates the chart's README from its values.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$HACK_DIR/.."

files=charts/warren/files
rm -rf "$files"
mkdir -p "$files"/{admission,contract,crds,dashboards,rbac/user,rules}
cp config/crd/bases/*.yaml "$files/crds/"
# The chart uses only the rules of these roles, with its own names and bindings.
cp config/rbac/{role,leader_election_role,metrics_auth_role,metrics_reader_role}.yaml "$files/rbac/"
cp config/dead-letters/active_role.yaml "$files/rbac/dead_letters_active_role.yaml"
cp config/contract/role.yaml "$files/rbac/contract_role.yaml"
cp config/contract/admission_policy.yaml "$files/contract/"
cp config/admission/redrive_policy.yaml "$files/admission/"
cp config/rbac/*_{admin,editor,viewer}_role.yaml "$files/rbac/user/"
cp config/prometheus/rules.yaml "$files/rules/alerts.yaml"
cp config/grafana/warren.json "$files/dashboards/"

hack/tool.sh helm-docs --chart-search-root=charts --sort-values-order=file --log-level=warning
