"""
The built-in kinds, as far as the sandbox knows them.

`...` ends a type whose other fields are kept as they are.
"""

from __future__ import annotations

from fencectl.sandbox.schema import Type, read_types

META = """
OwnerReference apiVersion s !; kind s !; name s !; uid s !; controller b *; blockOwnerDeletion b *
ManagedFieldsEntry manager s; operation s; apiVersion s; time T *; fieldsType s; fieldsV1 any *; subresource
  s
ObjectMeta name s; generateName s; namespace s; selfLink s; uid s; resourceVersion s; generation l;
  creationTimestamp T; deletionTimestamp T *; deletionGracePeriodSeconds l *; labels {s}; annotations {s};
  ownerReferences [OwnerReference] @map:uid ~uid; finalizers [s] @set ~; managedFields [ManagedFieldsEntry]
LabelSelectorRequirement key s !; operator s !; values [s]
LabelSelector matchLabels {s}; matchExpressions [LabelSelectorRequirement]
Condition type s !; status s !; observedGeneration l; lastTransitionTime T !; reason s !; message s !
LocalObjectReference name s
ObjectReference kind s; namespace s; name s; uid s; apiVersion s; resourceVersion s; fieldPath s
TypedObjectReference apiGroup s *; kind s !; name s !; namespace s *
"""

CORE = """
NamespaceSpec finalizers [s]
NamespaceStatus phase s; conditions [any] @map:type ~type
Namespace apiVersion s; kind s; metadata ObjectMeta; spec NamespaceSpec; status NamespaceStatus
Taint key s !; value s; effect s !; timeAdded T *
NodeSpec podCIDR s; podCIDRs [s] @set ~; providerID s; unschedulable b; taints [Taint] @atomic; configSource
  any *; externalID s
NodeCondition type s !; status s !; lastHeartbeatTime T !; lastTransitionTime T !; reason s; message s
NodeAddress type s !; address s !
DaemonEndpoint Port i !
NodeDaemonEndpoints kubeletEndpoint DaemonEndpoint
NodeSystemInfo machineID s !; systemUUID s !; bootID s !; kernelVersion s !; osImage s !;
  containerRuntimeVersion s !; kubeletVersion s !; kubeProxyVersion s !; operatingSystem s !; architecture s
  !; swap any *
ContainerImage names [s] @atomic; sizeBytes l
NodeStatus capacity {q}; allocatable {q}; phase s; conditions [NodeCondition] @map:type ~type; addresses
  [NodeAddress] @map:type,address ~type; daemonEndpoints NodeDaemonEndpoints; nodeInfo NodeSystemInfo;
  images [ContainerImage] @atomic; volumesInUse [s]; volumesAttached [any]; config any *; runtimeHandlers
  [any]; features any *; declaredFeatures [s]
Node apiVersion s; kind s; metadata ObjectMeta; spec NodeSpec; status NodeStatus
ConfigMap apiVersion s; kind s; metadata ObjectMeta; immutable b *; data {s}; binaryData {s}
Secret apiVersion s; kind s; metadata ObjectMeta; immutable b *; data {s}; stringData {s}; type s
ServiceAccount apiVersion s; kind s; metadata ObjectMeta; secrets [ObjectReference] @map:name ~name;
  imagePullSecrets [LocalObjectReference] ~name; automountServiceAccountToken b *
EventSource component s; host s
EventSeries count i; lastObservedTime M
Event apiVersion s; kind s; metadata ObjectMeta; involvedObject ObjectReference @atomic; reason s; message
  s; source EventSource; firstTimestamp T !; lastTimestamp T !; count i; type s; eventTime M !; series
  EventSeries *; action s; related ObjectReference *; reportingComponent s !; reportingInstance s !
ServicePort name s; protocol s ="TCP"; appProtocol s *; port i !; targetPort x; nodePort i
ServiceSpec ports [ServicePort] @map:port,protocol ~port; selector {s}; clusterIP s; clusterIPs [s]; type s;
  externalIPs [s]; sessionAffinity s; externalName s; ipFamilies [s]; ipFamilyPolicy s *;
  internalTrafficPolicy s *; publishNotReadyAddresses b; ...
Service apiVersion s; kind s; metadata ObjectMeta; spec ServiceSpec; status any !
EnvVar name s !; value s; valueFrom any *
ContainerPort name s; hostPort i; containerPort i !; protocol s ="TCP"; hostIP s
VolumeMount name s !; readOnly b; mountPath s !; subPath s; mountPropagation s *; subPathExpr s;
  recursiveReadOnly s *
ResourceRequirements limits {q}; requests {q}; claims [any]
Container name s !; image s; command [s]; args [s]; workingDir s; ports [ContainerPort]
  @map:containerPort,protocol ~containerPort; envFrom [any]; env [EnvVar] @map:name ~name; resources
  ResourceRequirements; resizePolicy [any]; restartPolicy s *; volumeMounts [VolumeMount] @map:mountPath
  ~mountPath; volumeDevices [any]; livenessProbe any *; readinessProbe any *; startupProbe any *; lifecycle
  any *; terminationMessagePath s; terminationMessagePolicy s; imagePullPolicy s; securityContext any *;
  stdin b; stdinOnce b; tty b
Volume name s !; ...
Toleration key s; operator s; value s; effect s; tolerationSeconds l *
PodSpec volumes [Volume] @map:name ~name ~!; initContainers [Container] @map:name ~name; containers
  [Container] @map:name ~name !; ephemeralContainers [Container] @map:name ~name; restartPolicy s;
  terminationGracePeriodSeconds l *; activeDeadlineSeconds l *; dnsPolicy s; nodeSelector {s};
  serviceAccountName s; serviceAccount s; automountServiceAccountToken b *; nodeName s; hostNetwork b;
  hostPID b; hostIPC b; securityContext any *; imagePullSecrets [LocalObjectReference] @map:name ~name;
  hostname s; subdomain s; affinity any *; schedulerName s; tolerations [Toleration]; priorityClassName s;
  priority i *; enableServiceLinks b *; preemptionPolicy s *; runtimeClassName s *; overhead {q};
  readinessGates [any]; dnsConfig any *; hostAliases [any] ~ip; shareProcessNamespace b *; setHostnameAsFQDN
  b *; os any *; hostUsers b *; schedulingGates [any]; resourceClaims [any] ~name; resources any *;
  topologySpreadConstraints [any]; hostnameOverride s *; workloadRef any *; schedulingGroup any *
PodCondition type s !; observedGeneration l; status s !; lastProbeTime T !; lastTransitionTime T !; reason
  s; message s
PodStatus observedGeneration l; phase s; conditions [PodCondition] @map:type ~type; message s; reason s;
  nominatedNodeName s; hostIP s; hostIPs [any]; podIP s; podIPs [any] @map:ip ~ip; startTime T *;
  initContainerStatuses [any]; containerStatuses [any]; qosClass s; ...
Pod apiVersion s; kind s; metadata ObjectMeta; spec PodSpec; status PodStatus
PodTemplateSpec metadata ObjectMeta; spec PodSpec
"""

APPS = """
RollingUpdateDeployment maxUnavailable x *; maxSurge x *
DeploymentStrategy type s; rollingUpdate RollingUpdateDeployment *
DeploymentSpec replicas i *; selector LabelSelector * ! @atomic; template PodTemplateSpec; strategy
  DeploymentStrategy ~!; minReadySeconds i; revisionHistoryLimit i *; paused b; progressDeadlineSeconds i *
WorkloadCondition type s !; status s !; lastUpdateTime T; lastTransitionTime T !; reason s; message s
DeploymentStatus observedGeneration l; replicas i; updatedReplicas i; readyReplicas i; availableReplicas i;
  unavailableReplicas i; terminatingReplicas i *; conditions [WorkloadCondition] @map:type ~type;
  collisionCount i *
Deployment apiVersion s; kind s; metadata ObjectMeta; spec DeploymentSpec; status DeploymentStatus
ReplicaSetSpec replicas i *; minReadySeconds i; selector LabelSelector * ! @atomic; template PodTemplateSpec
ReplicaSetStatus replicas i !; fullyLabeledReplicas i; readyReplicas i; availableReplicas i;
  terminatingReplicas i *; observedGeneration l; conditions [WorkloadCondition] @map:type ~type
ReplicaSet apiVersion s; kind s; metadata ObjectMeta; spec ReplicaSetSpec; status ReplicaSetStatus
StatefulSetSpec replicas i *; selector LabelSelector * ! @atomic; template PodTemplateSpec;
  volumeClaimTemplates [any]; serviceName s !; podManagementPolicy s; updateStrategy any !;
  revisionHistoryLimit i *; minReadySeconds i; persistentVolumeClaimRetentionPolicy any *; ordinals any *
StatefulSetStatus observedGeneration l; replicas i !; readyReplicas i; currentReplicas i; updatedReplicas i;
  currentRevision s; updateRevision s; collisionCount i *; conditions [WorkloadCondition] @map:type ~type;
  availableReplicas i !
StatefulSet apiVersion s; kind s; metadata ObjectMeta; spec StatefulSetSpec; status StatefulSetStatus
DaemonSetSpec selector LabelSelector * ! @atomic; template PodTemplateSpec; updateStrategy any !;
  minReadySeconds i; revisionHistoryLimit i *
DaemonSetStatus currentNumberScheduled i !; numberMisscheduled i !; desiredNumberScheduled i !; numberReady
  i !; observedGeneration l; updatedNumberScheduled i; numberAvailable i; numberUnavailable i;
  collisionCount i *; conditions [WorkloadCondition] @map:type ~type
DaemonSet apiVersion s; kind s; metadata ObjectMeta; spec DaemonSetSpec; status DaemonSetStatus
JobSpec parallelism i *; completions i *; activeDeadlineSeconds l *; podFailurePolicy any *; successPolicy
  any *; backoffLimit i *; backoffLimitPerIndex i *; maxFailedIndexes i *; selector LabelSelector * @atomic;
  manualSelector b *; template PodTemplateSpec; ttlSecondsAfterFinished i *; completionMode s *; suspend b
  *; podReplacementPolicy s *; managedBy s *
JobStatus conditions [any] @atomic ~type; startTime T *; completionTime T *; active i; succeeded i; failed
  i; terminating i *; ready i *; uncountedTerminatedPods any *; ...
Job apiVersion s; kind s; metadata ObjectMeta; spec JobSpec; status JobStatus
PodDisruptionBudgetSpec minAvailable x *; selector LabelSelector * @atomic ~!; maxUnavailable x *;
  unhealthyPodEvictionPolicy s *
PodDisruptionBudgetStatus observedGeneration l; disruptedPods {T}; disruptionsAllowed i !; currentHealthy i
  !; desiredHealthy i !; expectedPods i !; conditions [Condition] @map:type ~type
PodDisruptionBudget apiVersion s; kind s; metadata ObjectMeta; spec PodDisruptionBudgetSpec; status
  PodDisruptionBudgetStatus
LeaseSpec holderIdentity s *; leaseDurationSeconds i *; acquireTime M *; renewTime M *; leaseTransitions i
  *; strategy s *; preferredHolder s *
Lease apiVersion s; kind s; metadata ObjectMeta; spec LeaseSpec
EventV1Series count i !; lastObservedTime M !
EventV1 apiVersion s; kind s; metadata ObjectMeta; eventTime M !; series EventV1Series *;
  reportingController s; reportingInstance s; action s; reason s; regarding ObjectReference @atomic; related
  ObjectReference *; note s; type s; deprecatedSource EventSource; deprecatedFirstTimestamp T !;
  deprecatedLastTimestamp T !; deprecatedCount i
ControllerRevision apiVersion s; kind s; metadata ObjectMeta; data any; revision l !
"""

RBAC = """
PolicyRule verbs [s] @atomic !; apiGroups [s] @atomic; resources [s] @atomic; resourceNames [s] @atomic;
  nonResourceURLs [s] @atomic
RoleRef apiGroup s !; kind s !; name s !
Subject kind s !; apiGroup s; name s !; namespace s
Role apiVersion s; kind s; metadata ObjectMeta; rules [PolicyRule] @atomic !
ClusterRole apiVersion s; kind s; metadata ObjectMeta; rules [PolicyRule] @atomic !; aggregationRule any *
RoleBinding apiVersion s; kind s; metadata ObjectMeta; subjects [Subject] @atomic; roleRef RoleRef @atomic
ClusterRoleBinding apiVersion s; kind s; metadata ObjectMeta; subjects [Subject] @atomic; roleRef RoleRef
  @atomic
CustomResourceDefinition apiVersion s; kind s; metadata ObjectMeta; spec any !; status any
"""


TYPES: dict[str, Type] = read_types(META + CORE + APPS + RBAC)
