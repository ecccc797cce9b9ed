{{- define "harbormaster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name, followed by the chart's name unless the release's name already contains it. */}}
{{- define "harbormaster.fullname" -}}
{{- $name := include "harbormaster.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "harbormaster.selector" -}}
app.kubernetes.io/name: {{ include "harbormaster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "harbormaster.labels" -}}
{{ include "harbormaster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "harbormaster.serviceAccount" -}}
{{- $own := ternary (include "harbormaster.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $own .Values.serviceAccount.name -}}
{{- end -}}

{{- define "harbormaster.image" -}}
{{- with .Values.image -}}
{{- $name := ternary .repository (printf "%s/%s" .registry .repository) (empty .registry) -}}
{{- if .digest -}}
{{ $name }}@{{ .digest }}
{{- else -}}
{{ $name }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "harbormaster.lease" -}}
{{- default (include "harbormaster.fullname" .) .Values.leaderElection.resourceName -}}
{{- end -}}

{{- define "harbormaster.leaseNamespace" -}}
{{- default .Release.Namespace .Values.leaderElection.resourceNamespace -}}
{{- end -}}

{{/* The chart's configuration, overridden by the value `config`. */}}
{{- define "harbormaster.config" -}}
{{- $lease := dict "leaderElect" true "resourceName" (include "harbormaster.lease" .) "resourceNamespace" (include "harbormaster.leaseNamespace" .) -}}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $lease "profiles" (list (dict "schedulerName" .Values.schedulerName)) -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}
