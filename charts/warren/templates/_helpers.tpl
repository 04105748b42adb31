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
The labels that Helm's conventions ask for. Objects of config/default have all labels but these.
*/}}
{{- define "warren.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "warren.selectorLabels" -}}
app.kubernetes.io/name: warren
app.kubernetes.io/component: manager
{{- end }}

{{- define "warren.labels" -}}
{{ include "warren.selectorLabels" . }}
{{ include "warren.chartLabels" . }}
{{- end }}

{{- define "warren.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (printf "%s-controller-manager" (include "warren.fullname" .)) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/*
The subjects of all bindings.
*/}}
{{- define "warren.subjects" -}}
- kind: ServiceAccount
  name: {{ include "warren.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/*
The rules of a role of config/rbac: include "warren.rules" (list $ "role.yaml")
*/}}
{{- define "warren.rules" -}}
{{- $root := index . 0 }}
{{- ($root.Files.Get (printf "files/rbac/%s" (index . 1)) | fromYaml).rules | toYaml }}
{{- end }}

{{- define "warren.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/*
The Secret that metrics are served with; empty where the manager makes a certificate by itself.
*/}}
{{- define "warren.metricsSecret" -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}
{{- if .Values.metrics.tls.certManager.enabled }}
{{- default (printf "%s-metrics-tls" (include "warren.fullname" .)) .Values.metrics.tls.secretName }}
{{- else }}
{{- .Values.metrics.tls.secretName }}
{{- end }}
{{- end }}
{{- end }}

{{- define "warren.metricsPort" -}}
{{ ternary "https" "http" .Values.metrics.secure }}
{{- end }}

{{/*
A role of the manager and its binding, for the cluster or in each watched namespace, by the rules in a file of config/:
include "warren.managerRole" (list $ "manager" "role.yaml")
*/}}
{{- define "warren.managerRole" -}}
{{- $root := index . 0 }}
{{- $rules := index . 2 }}
{{- $role := printf "%s-%s-role" (include "warren.fullname" $root) (index . 1) }}
{{- $binding := printf "%s-%s-rolebinding" (include "warren.fullname" $root) (index . 1) }}
{{- range $root.Values.watchNamespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $role }}
  namespace: {{ . }}
  labels:
    {{- include "warren.chartLabels" $root | nindent 4 }}
rules:
{{ include "warren.rules" (list $root $rules) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $binding }}
  namespace: {{ . }}
  labels:
    {{- include "warren.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $role }}
subjects:
{{ include "warren.subjects" $root }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $role }}
  labels:
    {{- include "warren.chartLabels" $root | nindent 4 }}
rules:
{{ include "warren.rules" (list $root $rules) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $binding }}
  labels:
    {{- include "warren.labels" $root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $role }}
subjects:
{{ include "warren.subjects" $root }}
{{- end }}
{{- end }}
