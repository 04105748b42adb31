{{/*
What the names of all objects begin with. Short enough for the longest name of a Service.
*/}}
{{- define "warren.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 36 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 36 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 36 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The labels that select the pods of the manager. The instance keeps two releases in one namespace apart.
*/}}
{{- define "warren.selectorLabels" -}}
app.kubernetes.io/name: warren
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: manager
{{- end }}

{{/*
The metadata of an object: its own labels win over those of the chart, and these over commonLabels.
include "warren.metadata" (dict "root" $ "name" … "namespace" … "labels" … "annotations" …), of which the last three may be missing
*/}}
{{- define "warren.metadata" -}}
{{- $root := .root }}
{{- $chart := dict
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" ($root.Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/managed-by" $root.Release.Service }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- merge dict (default dict .labels) (include "warren.selectorLabels" $root | fromYaml) $chart (default dict $root.Values.commonLabels) | toYaml | nindent 4 }}
  {{- with merge dict (default dict .annotations) (default dict $root.Values.commonAnnotations) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "warren.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (printf "%s-controller-manager" (include "warren.fullname" .)) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/*
The rules of a role of config/: include "warren.rules" (list $ "role.yaml")
*/}}
{{- define "warren.rules" -}}
{{- $root := index . 0 }}
{{- ($root.Files.Get (printf "files/rbac/%s" (index . 1)) | fromYaml).rules | toYaml }}
{{- end }}

{{/*
A role and its binding, of the whole cluster unless a namespace is given. The subject is the manager unless others are given.
include "warren.role" (dict "root" $ "name" "manager" "rules" … "namespace" … "subjects" …)
*/}}
{{- define "warren.role" -}}
{{- $name := printf "%s-%s" (include "warren.fullname" .root) .name }}
{{- $scope := hasKey . "namespace" | ternary "" "Cluster" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}Role
{{ include "warren.metadata" (dict "root" .root "name" (printf "%s-role" $name) "namespace" .namespace) }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}RoleBinding
{{ include "warren.metadata" (dict "root" .root "name" (printf "%s-rolebinding" $name) "namespace" .namespace) }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $scope }}Role
  name: {{ $name }}-role
subjects:
{{ default (include "warren.subjects" .root) .subjects }}
{{- end }}

{{- define "warren.subjects" -}}
- kind: ServiceAccount
  name: {{ include "warren.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/*
A role of the manager, in each watched namespace or for the whole cluster: include "warren.managerRole" (list $ "manager" "role.yaml")
*/}}
{{- define "warren.managerRole" -}}
{{- $root := index . 0 }}
{{- $role := dict "root" $root "name" (index . 1) "rules" (include "warren.rules" (list $root (index . 2))) }}
{{- range $root.Values.watchNamespaces }}
{{ include "warren.role" (merge (dict "namespace" .) $role) }}
{{- else }}
{{ include "warren.role" $role }}
{{- end }}
{{- end }}

{{- define "warren.image" -}}
{{- $name := list .Values.image.registry .Values.image.repository | compact | join "/" }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $name .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/*
What the pods of the manager and of `helm test` have in common.
*/}}
{{- define "warren.podSpec" -}}
serviceAccountName: {{ include "warren.serviceAccountName" . | quote }}
{{- with concat (default list (default dict .Values.global).imagePullSecrets) (default list .Values.imagePullSecrets) | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
GOMEMLIMIT: manager.goMemLimit, or 90% of the memory limit in MiB. Empty without a limit.
*/}}
{{- define "warren.goMemLimit" -}}
{{- $limit := dig "limits" "memory" "" (default dict .Values.resources) }}
{{- if .Values.manager.goMemLimit }}
{{- .Values.manager.goMemLimit }}
{{- else if $limit }}
{{- $text := kindIs "string" $limit | ternary $limit (printf "%d" (int64 $limit)) }}
{{- $unit := regexFind "[A-Za-z]*$" $text }}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "E" 1000000000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776
  "Pi" 1125899906842624 "Ei" 1152921504606846976 }}
{{- $bytes := mulf (trimSuffix $unit $text | float64) (get $factors $unit) }}
{{- printf "%dMiB" (divf (mulf $bytes 0.9) 1048576 | floor | int64 | max 1) }}
{{- end }}
{{- end }}

{{/*
The Secret that an endpoint is served with; empty where the manager makes a certificate by itself:
include "warren.servingSecret" (list $ "metrics" .Values.metrics.tls)
*/}}
{{- define "warren.servingSecret" -}}
{{- $root := index . 0 }}
{{- $tls := index . 2 }}
{{- $own := printf "%s-%s-tls" (include "warren.fullname" $root) (index . 1) }}
{{- default ($tls.certManager.enabled | ternary $own "") $tls.secretName }}
{{- end }}

{{- define "warren.metricsSecret" -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
{{- include "warren.servingSecret" (list . "metrics" .Values.metrics.tls) }}
{{- end }}
{{- end }}

{{- define "warren.deadLettersSecret" -}}
{{- if .Values.deadLetters.enabled }}
{{- include "warren.servingSecret" (list . "dead-letters" .Values.deadLetters.tls) }}
{{- end }}
{{- end }}

{{/*
The Certificate of a Service, by cert-manager: include "warren.certificate" (dict "root" $ "service" … "secret" … "value" "metrics.tls" "tls" …)
*/}}
{{- define "warren.certificate" -}}
{{- $_ := required (printf "%s.certManager.issuerRef.name is required with %s.certManager.enabled" .value .value) .tls.certManager.issuerRef.name }}
apiVersion: cert-manager.io/v1
kind: Certificate
{{ include "warren.metadata" (dict "root" .root "name" .service "namespace" .root.Release.Namespace) }}
spec:
  secretName: {{ .secret | quote }}
  dnsNames:
  - {{ .service }}.{{ .root.Release.Namespace }}.svc
  - {{ .service }}.{{ .root.Release.Namespace }}.svc.cluster.local
  usages: [server auth]
  issuerRef:
    {{- toYaml .tls.certManager.issuerRef | nindent 4 }}
{{- end }}

{{- define "warren.metricsPort" -}}
{{ ternary "https" "http" .Values.metrics.secure }}-metrics
{{- end }}

{{/*
The name of the ServiceAccount whose token a ServiceMonitor scrapes with, and of its role; empty where metrics.serviceMonitor.authorization
says otherwise.
*/}}
{{- define "warren.scraper" -}}
{{- $metrics := .Values.metrics }}
{{- if and .Values.rbac.create $metrics.enabled $metrics.secure $metrics.serviceMonitor.enabled (not $metrics.serviceMonitor.authorization) }}
{{- include "warren.fullname" . }}-metrics-scraper
{{- end }}
{{- end }}

{{/*
A ValidatingAdmissionPolicy that denies, and its binding: include "warren.admissionPolicy" (dict "root" $ "name" … "spec" …)
*/}}
{{- define "warren.admissionPolicy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
{{ include "warren.metadata" (dict "root" .root "name" .name) }}
spec:
  {{- toYaml .spec | nindent 2 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "warren.metadata" (dict "root" .root "name" .name) }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}
