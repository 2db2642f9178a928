"""The Flux kinds. Known are the fields that fences and reports look at; the others are kept as they are."""

from __future__ import annotations

from fencectl.sandbox.schema import Type, read_types
from fencectl.sandbox.types_builtin import TYPES

FLUX = """
FluxMeta name s *; namespace s *; ...
SourceRef apiVersion s *; kind s * ? %OCIRepository,GitRepository,Bucket,ExternalArtifact; name s * ?;
  namespace s *
DependencyReference name s * ?; namespace s *; readyExpr s *
FluxCondition lastTransitionTime s * ?; message s * ?; observedGeneration l *; reason s * ?; status s * ?
  %True,False,Unknown; type s * ?
KustomizationSpec commonMetadata any *; components [s] *; decryption any *; deletionPolicy s *
  %MirrorPrune,Delete,WaitForTermination,Orphan; dependsOn [DependencyReference] *; force b * =false;
  healthCheckExprs [any] *; healthChecks [any] *; images [any] *; interval s * ? ^duration; kubeConfig any
  *; namePrefix s *; nameSuffix s *; patches [any] *; path s *; postBuild any *; prune b * ?; retryInterval
  s * ^duration; serviceAccountName s *; sourceRef SourceRef * ?; suspend b *; targetNamespace s *; timeout
  s * ^duration; wait b *; ignoreMissingComponents b *; buildMetadata [s] *; ignore [any] *
KustomizationStatus conditions [FluxCondition] *; history [any] *; inventory any *;
  lastAppliedOriginRevision s *; lastAppliedRevision s *; lastAttemptedRevision s *; lastHandledReconcileAt
  s *; observedGeneration l *
Kustomization apiVersion s *; kind s *; metadata ObjectMeta; spec KustomizationSpec *; status
  KustomizationStatus * ={"observedGeneration":-1}
FluxSpec suspend b *; interval s * ^duration; timeout s * ^timeout; ...
FluxStatus conditions [FluxCondition] *; lastHandledReconcileAt s *; observedGeneration l *; ...
FluxObject apiVersion s *; kind s *; metadata ObjectMeta; spec FluxSpec *; status FluxStatus *
  ={"observedGeneration":-1}
SourceSpec suspend b *; interval s * ? ^duration; timeout s * ^timeout ="60s"; url s * ?; ...
GitRepository apiVersion s *; kind s *; metadata ObjectMeta; spec SourceSpec *; status FluxStatus *
  ={"observedGeneration":-1}
OCISpec suspend b *; interval s * ? ^duration; timeout s * ^timeout ="60s"; url s * ?; provider s *
  %generic,aws,azure,gcp ="generic"; ...
OCIRepository apiVersion s *; kind s *; metadata ObjectMeta; spec OCISpec *; status FluxStatus *
  ={"observedGeneration":-1}
BucketSpec suspend b *; interval s * ? ^duration; timeout s * ^timeout ="60s"; bucketName s * ?; endpoint s
  * ?; provider s * %generic,aws,azure,gcp ="generic"; ...
Bucket apiVersion s *; kind s *; metadata ObjectMeta; spec BucketSpec *; status FluxStatus *
  ={"observedGeneration":-1}
HelmRepositorySpec suspend b *; interval s * ^duration; timeout s * ^timeout; url s * ?; provider s *
  %generic,aws,azure,gcp ="generic"; ...
HelmRepository apiVersion s *; kind s *; metadata ObjectMeta; spec HelmRepositorySpec *; status FluxStatus *
  ={"observedGeneration":-1}
HelmChartSpec suspend b *; interval s * ? ^duration; chart s * ?; version s * ="*"; reconcileStrategy s *
  %ChartVersion,Revision ="ChartVersion"; ...
HelmChart apiVersion s *; kind s *; metadata ObjectMeta; spec HelmChartSpec *; status FluxStatus *
  ={"observedGeneration":-1}
FluxPlainSpec suspend b *; ...
FluxPlain apiVersion s *; kind s *; metadata ObjectMeta; spec FluxPlainSpec *
FluxReceiver apiVersion s *; kind s *; metadata ObjectMeta; spec FluxSpec *; status FluxStatus *
  ={"observedGeneration":-1}
FluxPolicy apiVersion s *; kind s *; metadata ObjectMeta; spec FluxSpec *; status FluxStatus *
  ={"observedGeneration":-1}
"""

FLUX_TYPES: dict[str, Type] = read_types(FLUX, known=TYPES)
