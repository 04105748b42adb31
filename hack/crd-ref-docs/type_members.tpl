{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
Kubernetes' own: name, namespace, labels, annotations, …
{{- else -}}
{{ .Doc | replace "\n" " " | trim | replace "|" "\\|" }}{{ if has "Required: {}" .Validation }} Required.{{ end }}{{ template "rules" .Validation }}
{{- end -}}
{{- end -}}
