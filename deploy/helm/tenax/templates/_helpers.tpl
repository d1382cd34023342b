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
    "TENAX_LOG_LEVEL" "info" "TENAX_LOG_FORMAT" "json"
    "ALLOWED_HOSTS" (join "," .Values.server.allowedHosts) -}}
{{- if .Values.tls.serverSecret -}}
{{- $_ := set $own "TENAX_TLS_CERT" "/run/secrets/tenax/tls.crt" -}}
{{- $_ := set $own "TENAX_TLS_KEY" "/run/secrets/tenax/tls.key" -}}
{{- $_ := set $own "TENAX_TLS_CLIENT_CA" "/run/secrets/tenax/ca.crt" -}}
{{- /* For commands in its pod: the admin listener, on its loopback. */ -}}
{{- $_ := set $own "TENAX_URL" "http://127.0.0.1:8901" -}}
{{- else -}}
{{- /* The network policy decides who may ask. */ -}}
{{- $_ := set $own "TENAX_INSECURE" "1" -}}
{{- end -}}
{{- range $name, $value := .Values.server.settings }}
{{- $_ := set $own $name $value }}
{{- end -}}
{{- range $name, $value := $own }}
{{ $name }}: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{- define "tenax.executorSettings" -}}
{{- $scheme := ternary "https" "http" (not (empty .Values.tls.serverSecret)) -}}
{{- $url := default (printf "%s://%s:7890" $scheme (include "tenax.fullname" .)) .Values.executor.serverUrl -}}
{{- $own := dict "TENAX_URL" $url "TENAX_EXECUTOR" .Values.executor.name
    "TENAX_STATE_DIR" "/var/lib/tenax/executor" "TENAX_EXECUTOR_METRICS_HOST" "0.0.0.0"
    "TENAX_EXECUTOR_METRICS_PORT" "7891" "TENAX_MAX_PODS" .Values.executor.maxPods
    "TENAX_LOG_LEVEL" "info" "TENAX_LOG_FORMAT" "json" "QUEUES" (join "," .Values.executor.queues)
    "JOBS_NAMESPACE" .Values.jobs.namespace -}}
{{- if .Values.tls.clientSecret -}}
{{- $_ := set $own "TENAX_CLIENT_CERT" "/run/secrets/tenax/tls.crt" -}}
{{- $_ := set $own "TENAX_CLIENT_KEY" "/run/secrets/tenax/tls.key" -}}
{{- $_ := set $own "TENAX_CA_CERT" "/run/secrets/tenax/ca.crt" -}}
{{- else if and .Values.tls.serverSecret (not .Values.executor.serverUrl) -}}
{{- fail "tls.clientSecret: which one, as tls.serverSecret demands a certificate?" -}}
{{- end -}}
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

{{/* A probe of the server: with certificates, which a kubelet has none of, from within. */}}
{{- define "tenax.probe" -}}
{{- if and .inside .probe.httpGet -}}
exec:
  command:
    - docker-health
{{ toYaml (omit .probe "httpGet") }}
{{- else -}}
{{ toYaml .probe }}
{{- end -}}
{{- end -}}

{{/* Of a secret of certificates. */}}
{{- define "tenax.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end -}}

{{- define "tenax.tlsMount" -}}
- name: tls
  mountPath: /run/secrets/tenax
  readOnly: true
{{- end -}}

{{/* Image, pull policy, probes, security and resources of a container. */}}
{{- define "tenax.container" -}}
image: {{ include "tenax.image" .top | quote }}
{{- with .top.Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
startupProbe:
  {{- include "tenax.probe" (dict "probe" .of.startupProbe "inside" .inside) | nindent 2 }}
livenessProbe:
  {{- include "tenax.probe" (dict "probe" .of.livenessProbe "inside" .inside) | nindent 2 }}
readinessProbe:
  {{- include "tenax.probe" (dict "probe" .of.readinessProbe "inside" .inside) | nindent 2 }}
securityContext:
  {{- toYaml .top.Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .of.resources | nindent 2 }}
{{- end -}}
