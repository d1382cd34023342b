{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "tenax.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 54 | trimSuffix "-" -}}
{{- end -}}

{{/* Of the server and its service; the executor's has a suffix, and a name has 63 characters. */}}
{{- define "tenax.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" -}}
{{- else if contains (include "tenax.name" .) .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tenax.name" .) | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tenax.executor" -}}
{{- printf "%s-executor" (include "tenax.fullname" .) -}}
{{- end -}}

{{- define "tenax.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tenax.executor" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: which one, as serviceAccount.create is false?" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tenax.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* What never changes, and so may select pods: of a dict with "component" and the root as "top". */}}
{{- define "tenax.selector" -}}
app.kubernetes.io/name: {{ include "tenax.name" .top }}
app.kubernetes.io/instance: {{ .top.Release.Name | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "tenax.labels" -}}
{{ include "tenax.selector" . }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Variables of the server: of the chart, then those that were set. */}}
{{- define "tenax.serverSettings" -}}
{{- $own := dict "TENAX_ROOT_DIR" "/var/lib/tenax/root" "TENAX_HOST" "0.0.0.0" "TENAX_PORT" "7890"
    "TENAX_INSECURE" "1" "TENAX_LOG_LEVEL" "info" "TENAX_LOG_FORMAT" "json"
    "ALLOWED_HOSTS" (join "," .Values.server.allowedHosts) -}}
{{- range $name, $value := .Values.server.settings }}
{{- $_ := set $own $name $value }}
{{- end -}}
{{- range $name, $value := $own }}
{{ $name }}: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{- define "tenax.executorSettings" -}}
{{- $url := default (printf "http://%s:7890" (include "tenax.fullname" .)) .Values.executor.serverUrl -}}
{{- $own := dict "TENAX_URL" $url "TENAX_EXECUTOR" .Values.executor.name
    "TENAX_STATE_DIR" "/var/lib/tenax/executor" "TENAX_EXECUTOR_METRICS_HOST" "0.0.0.0"
    "TENAX_EXECUTOR_METRICS_PORT" "7891" "TENAX_MAX_PODS" .Values.executor.maxPods
    "TENAX_LOG_LEVEL" "info" "TENAX_LOG_FORMAT" "json" "QUEUES" (join "," .Values.executor.queues)
    "JOBS_NAMESPACE" .Values.jobs.namespace -}}
{{- range $name, $value := .Values.executor.settings }}
{{- $_ := set $own $name $value }}
{{- end -}}
{{- range $name, $value := $own }}
{{ $name }}: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{/* Where a pod may run: of server or executor. */}}
{{- define "tenax.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "tenax.claim" -}}
accessModes:
  - ReadWriteOnce
{{- with .storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .size | quote }}
{{- end -}}

{{/* Image, pull policy, probes, security and resources of a container. */}}
{{- define "tenax.container" -}}
image: {{ include "tenax.image" .top | quote }}
{{- with .top.Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
startupProbe:
  {{- toYaml .of.startupProbe | nindent 2 }}
livenessProbe:
  {{- toYaml .of.livenessProbe | nindent 2 }}
readinessProbe:
  {{- toYaml .of.readinessProbe | nindent 2 }}
securityContext:
  {{- toYaml .top.Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .of.resources | nindent 2 }}
{{- end -}}
