{{- define "gvList" -}}
# API reference

<!-- Generated from api/ by `make docs`. -->
{{- range . }}
{{ template "gvDetails" . }}
{{- end }}
{{- end -}}
